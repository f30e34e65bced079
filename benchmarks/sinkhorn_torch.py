"""Sinkhorn normalisation in torch, tuned for torch: the baseline of benchmarks/sinkhorn.py.

Four forms of the same ten iterations, alpha = a / (K beta), beta = b / (K^T alpha), with K = exp((S - row maximum) /
tau) kept in float32 or bfloat16. In all of them S is multiplied straight into its place and turned into K there, 1 /
tau is folded into the items beforehand, and nothing of K's size is ever allocated beside K. Run this file through
benchmarks/sinkhorn.py.

whole: two matrix-vector products over all of K in each iteration, the obvious form.
blocks: K is made and swept block by block, so that the softmax finds its block in cache, and so does the second
product of an iteration; the rows of a softmax sum to 1, so the first alpha costs nothing. bfloat16 blocks are widened
in cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import numpy as np
import torch

from unhub.arrays import Float32, Float64, spans

MAKE_ROWS = 1024  # rows of K made at a time: fewer slow the multiply down
SWEEP_ROWS = 128  # rows of K read at a time: these are still in cache for the second product
Form: TypeAlias = Callable[[Float32, Float32, float, int], Float64]


def whole_fp32(items: Float32, bank: Float32, tau: float, iterations: int) -> Float64:
    """K in float32; two products over all of it in each iteration."""
    return _whole(items, bank, tau, iterations, torch.float32)


def whole_bf16(items: Float32, bank: Float32, tau: float, iterations: int) -> Float64:
    """K, alpha and beta in bfloat16; torch adds up in float32 within a product."""
    return _whole(items, bank, tau, iterations, torch.bfloat16)


def blocks_fp32(items: Float32, bank: Float32, tau: float, iterations: int) -> Float64:
    """K in float32, made and swept in blocks."""
    return _in_blocks(items, bank, tau, iterations, torch.float32)


def blocks_bf16(items: Float32, bank: Float32, tau: float, iterations: int) -> Float64:
    """K in bfloat16, made and swept in blocks that are widened to float32; alpha and beta are float32."""
    return _in_blocks(items, bank, tau, iterations, torch.bfloat16)


FORMS: dict[str, Form] = {
    "torch fp32, whole": whole_fp32,
    "torch bf16, whole": whole_bf16,
    "torch fp32, blocks": blocks_fp32,
    "torch bf16, blocks": blocks_bf16,
}


def _whole(items: Float32, bank: Float32, tau: float, iterations: int, dtype: torch.dtype) -> Float64:
    with torch.inference_mode():
        gallery, queries = (torch.from_numpy(items) / tau).t(), torch.from_numpy(bank)
        m, n = queries.shape[0], gallery.shape[1]
        kernel = torch.empty(m, n, dtype=dtype)
        if dtype == torch.float32:
            torch.mm(queries, gallery, out=kernel)
            kernel.sub_(kernel.amax(dim=1, keepdim=True)).exp_()
        else:
            scratch = torch.empty(MAKE_ROWS, n)
            for start, stop in spans(m, MAKE_ROWS):
                block = scratch[: stop - start]
                torch.mm(queries[start:stop], gallery, out=block)
                kernel[start:stop] = block.sub_(block.amax(dim=1, keepdim=True)).exp_()
        alpha, beta = torch.empty(m, dtype=dtype), torch.ones(n, dtype=dtype)
        for _ in range(iterations):
            torch.mv(kernel, beta, out=alpha)
            alpha.reciprocal_().div_(m)
            torch.mv(kernel.t(), alpha, out=beta)
            beta.reciprocal_().div_(n)
        return _bias(beta, tau)


def _in_blocks(items: Float32, bank: Float32, tau: float, iterations: int, dtype: torch.dtype) -> Float64:
    with torch.inference_mode():
        gallery, queries = (torch.from_numpy(items) / tau).t(), torch.from_numpy(bank)
        m, n = queries.shape[0], gallery.shape[1]
        kernel = torch.empty(m, n, dtype=dtype)
        wide = dtype == torch.float32
        scratch = torch.empty(0 if wide else MAKE_ROWS, n)
        alpha, totals = torch.full((m,), 1 / m), torch.zeros(n)
        for start, stop in spans(m, MAKE_ROWS):
            block = kernel[start:stop] if wide else scratch[: stop - start]
            torch.mm(queries[start:stop], gallery, out=block)
            torch.softmax(block, dim=1, out=block)
            totals.addmv_(block.t(), alpha[start:stop])
            if not wide:
                kernel[start:stop] = block
        for _ in range(iterations - 1):
            beta = totals.mul_(n).reciprocal()
            totals.zero_()
            for start, stop in spans(m, SWEEP_ROWS):
                rows = alpha[start:stop]
                block = kernel[start:stop] if wide else scratch[: stop - start].copy_(kernel[start:stop])
                torch.mv(block, beta, out=rows)
                totals.addmv_(block.t(), rows.mul_(m).reciprocal_())
        return _bias(totals.mul_(n).reciprocal_(), tau)


def _bias(beta: torch.Tensor, tau: float) -> Float64:
    """Return h = -tau * log beta, (items,)."""
    return cast("Float64", -tau * np.log(beta.to(torch.float64).numpy()))
