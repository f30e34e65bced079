"""The torch kernel: makes and reduces tiles on a device of torch. `interface` documents each function.

Tiles, blocks and reservoirs are tensors on the device. Running sums stay on the host in float64, which some devices do
not have; a tile's own sums come back to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from unhub.arrays import Float32, Float64, spans, unit
from unhub.kernels import torch_device
from unhub.kernels.interface import Limits
from unhub.kernels.plain import FLAT_BETA, FLAT_MEAN, MOST_ROWS, balance_entries
from unhub.kernels.torch_top import add_to_reservoir, cut_reservoir, largest_columns

Tensor: TypeAlias = Any  # a torch.Tensor, where the interface has the arrays of other kernels

# Reduced at a time: on a processor what its second-level cache holds, elsewhere enough to keep the device busy.
CPU_SLAB_ENTRIES, SLAB_ENTRIES = 1 << 18, 16 << 20
DROPPED_BITS, DROPPED_HALF = 14, 1 << 13  # of a share's float32, to keep 16; half of the last
SHARE_BITS = (1 << 30) - 1  # those that a share, which is never above 1, can have
LEAST_LENGTH, MOST_LENGTH = 1e-15, 1e18  # of rows whose squares are within the range of float32
LOW_WORD = 0xFFFFFFFF
DTYPES = {"float32": torch.float32, "int32": torch.int32, "int64": torch.int64, "uint16": torch.int16}


class TorchKernel:
    """The functions of a kernel on one device; with `short`, blocks are multiplied in bf16."""

    def __init__(self, device: torch.device, short: bool) -> None:
        self.device, self.short = device, short

    @property
    def NAME(self) -> str:
        """The name under which `choose` returns this kernel, in any process."""
        return f"torch:{self.device}" + ("/bf16" if self.short else "")

    ON_DEVICE = True

    @property
    def LIMITS(self) -> Limits:
        """What the device takes at a time, by what it has free now."""
        return torch_device.limits_of(self.device, self.short)

    # Where arrays are.

    def ready(self, rows: Any, scale: bool) -> Tensor:
        """Return rows on the device, ready to multiply."""
        block = self._on(rows).to(torch.float32)
        block = self.unit_rows(block) if scale else block
        block = block.to(torch.bfloat16) if self.short else block
        if self.device.type == "cuda":  # other threads, which have streams of their own, may use it
            torch.cuda.current_stream(self.device).synchronize()
        return block

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> Tensor:
        """Return a tensor on the device, with any contents."""
        return torch.empty(shape, dtype=DTYPES[np.dtype(dtype).name], device=self.device)

    def host(self, array: Tensor) -> NDArray[Any]:
        """Return a tensor as a numpy array."""
        return np.asarray(array.cpu().numpy())

    def write(self, scores: NDArray[np.floating], out: Tensor) -> None:
        """Copy given scores into a tile."""
        out.copy_(self._on(np.ascontiguousarray(scores, np.float32)))

    def turned(self, tile: Tensor) -> Tensor:
        """Return the tile with rows and columns exchanged."""
        return tile.T.contiguous()

    def shift(self, tile: Tensor, offsets: Float32) -> None:
        """Add a number to each column of a tile."""
        tile += self._on(offsets)

    def lower(self, tile: Tensor, weights: Float32, bias: Float32) -> None:
        """Subtract weight * bias from each score."""
        tile -= self._on(weights)[:, None] * self._on(bias)

    def best_columns(self, tile: Tensor) -> NDArray[np.int64]:
        """Return the first column with the largest score of each row, (rows,)."""
        return self.host(tile.max(dim=1).indices)

    def is_full(self, error: BaseException) -> bool:
        """Return whether an error says that the device has no memory left."""
        return torch_device.is_full(error)

    def lane(self) -> AbstractContextManager[None]:
        """Return what a thread must be in to compute on the device."""
        return torch_device.lane(self.device)

    def _on(self, array: Any) -> Tensor:
        return torch_device.upload(array, self.device)

    def _slabs(self, tile: Tensor) -> Iterator[slice]:
        entries = CPU_SLAB_ENTRIES if self.device.type == "cpu" else SLAB_ENTRIES
        return (slice(*span) for span in spans(tile.shape[0], min(MOST_ROWS, max(1, entries // tile.shape[1]))))

    def _weights(self, weights: Float32 | None, count: int) -> Tensor:
        return torch.ones(count, device=self.device) if weights is None else self._on(weights)

    # Tiles.

    def multiply(self, left: Tensor, right: Tensor, out: Tensor) -> None:
        """Write the inner products of two sets of rows, (left, right)."""
        if left.dtype == out.dtype:
            torch.mm(left, right.T, out=out)
        else:
            out.copy_(torch.mm(left, right.T))

    def multiply_few(self, left: Tensor, right: Tensor, out: Tensor) -> None:
        """Do `multiply`."""
        self.multiply(left, right, out)

    def add_powers(self, tile: Tensor, betas: Float32, sums: Float64, weights: Float32 | None = None) -> None:
        """Add exp(beta * score) to running sums, (rows, betas), where |beta * score| is at most 80."""
        ones = self._weights(weights, tile.shape[1])
        whole = float(np.sum(weights, dtype=np.float64)) if weights is not None else tile.shape[1]
        slabs = list(self._slabs(tile))
        room, found = torch.empty_like(tile[slabs[0]]), tile.new_empty((len(betas), tile.shape[0]))
        for rows in slabs:
            work = room[: rows.stop - rows.start]
            for b, beta in enumerate(betas.tolist()):
                torch.mul(tile[rows], beta, out=work)
                torch.mv(work.expm1_() if beta <= FLAT_BETA else work.exp_(), ones, out=found[b, rows])
        sums += self.host(found).T + np.where(betas <= FLAT_BETA, whole, 0.0)

    def add_log_sums(
        self, tile: Tensor, betas: Float32, peak: Float32, sums: Float64, weights: Float32 | None = None
    ) -> None:
        """Add a tile to running sums of exp(beta * (score - peak)), (rows, betas); the tile is overwritten."""
        ones = self._weights(weights, tile.shape[1])
        whole = float(np.sum(weights, dtype=np.float64)) if weights is not None else tile.shape[1]
        room = torch.empty_like(tile[next(self._slabs(tile))])
        for rows in self._slabs(tile):
            slab, work = tile[rows], room[: rows.stop - rows.start]
            top = np.maximum(peak[rows], self.host(slab.amax(dim=1)))
            sums[rows] *= np.exp((peak[rows].astype(np.float64) - top)[:, None] * betas)
            peak[rows] = top
            slab -= self._on(top)[:, None]
            means = self.host(slab @ ones) / np.float32(whole)
            for b, beta in enumerate(betas.tolist()):
                torch.mul(slab, beta, out=work)
                flat = np.flatnonzero(np.float32(beta) * means > FLAT_MEAN)
                precise = torch.expm1(work[self._on(flat)]) @ ones if len(flat) else None
                totals = self.host(work.exp_() @ ones).astype(np.float64)
                if precise is not None:
                    totals[flat] = whole + self.host(precise).astype(np.float64)
                sums[rows, b] += totals

    def add_top(
        self, tile: Tensor, first: int, k: int, values: Tensor, places: Tensor, counts: Tensor, bars: Tensor
    ) -> None:
        """Add a tile to each row's reservoir, (rows, room), which always holds the row's k largest values so far."""
        add_to_reservoir(tile, first, k, values, places, counts, bars)

    def cut_top(self, k: int, values: Tensor, places: Tensor, counts: Tensor) -> None:
        """Shorten each reservoir that add_top filled to its k largest values, in their order."""
        cut_reservoir(k, values, places, counts)

    def place_rows(
        self,
        tile: Tensor,
        h: Float32,
        weights: Float32,
        starts: NDArray[np.int64],
        positions: NDArray[np.int64],
        better: NDArray[np.int64],
        equal: NDArray[np.int64],
        best: NDArray[np.int32],
    ) -> None:
        """Rank the columns of each row by score - weight * h, with weights of 0 or 1."""
        bias, k = self._on(h), best.shape[1]
        for rows in self._slabs(tile):
            corrected = tile[rows] - self._on(weights[rows])[:, None] * bias
            for place in range(int(np.diff(starts[rows.start : rows.stop + 1]).max(initial=0))):
                pairs = starts[rows] + place
                there = pairs < starts[rows.start + 1 : rows.stop + 1]
                pairs = pairs[there]
                mine = corrected if there.all() else corrected[self._on(np.flatnonzero(there))]
                bars = mine.gather(1, self._on(positions[pairs])[:, None])
                better[pairs] = self.host((mine > bars).sum(dim=1))
                equal[pairs] = self.host((mine == bars).sum(dim=1))
            if k:
                columns = largest_columns(corrected, k)
                values, order = corrected.gather(1, columns).sort(dim=1, descending=True, stable=True)
                columns = columns.gather(1, order).masked_fill(values == -math.inf, -1)
                best[rows] = self.host(columns)

    def count_over(
        self,
        tile: Tensor,
        starts: NDArray[np.int64],
        bars: Float32,
        over: NDArray[np.int64],
        equal: NDArray[np.int64],
    ) -> None:
        """Add to `over` and `equal` how many columns of row i are above, and the same as, each bar of that row."""
        for rows in self._slabs(tile):
            for place in range(int(np.diff(starts[rows.start : rows.stop + 1]).max(initial=0))):
                pairs = starts[rows] + place
                there = pairs < starts[rows.start + 1 : rows.stop + 1]
                pairs = pairs[there]
                own = tile[rows] if there.all() else tile[rows][self._on(np.flatnonzero(there))]
                high = self._on(bars[pairs])[:, None]
                over[pairs] += self.host((own > high).sum(dim=1))
                equal[pairs] += self.host((own == high).sum(dim=1))

    def add_column_best(self, tile: Tensor, first: int, best: Float32, where: NDArray[np.int32]) -> None:
        """Keep each column's largest value and its row (row i has position first + i); among equals the first wins."""
        better = np.flatnonzero(self.host(tile.amax(dim=0)) > best)
        if not len(better):
            return
        some = tile if len(better) == len(best) else tile[:, self._on(better)]
        values, rows = some.max(dim=0)
        best[better], where[better] = self.host(values), first + self.host(rows)

    # Sinkhorn.

    def soften_rows(
        self,
        scores: Tensor,
        h: Float32,
        beta: float,
        out: Tensor,
        totals: Float64,
        logs: Float64,
        weights: Float32 | None = None,
    ) -> None:
        """Write each row's softmax of beta * (score - h) to `out`, which may be the scores; add it to `totals`."""
        bias, shares = self._on(h), self._weights(weights, len(scores))
        for rows in self._slabs(scores):
            slab = torch.sub(scores[rows], bias, out=out[rows])
            largest = slab.amax(dim=1)
            total = slab.sub_(largest[:, None]).mul_(beta).exp_().sum(dim=1)
            slab *= (1 / total)[:, None]
            totals += self.host(shares[rows] @ slab)
            logs[rows] = beta * self.host(largest).astype(np.float64) + np.log(self.host(total).astype(np.float64))

    def soften_short_rows(
        self,
        scores: Tensor,
        h: Float32,
        beta: float,
        out: Tensor,
        totals: Float64,
        logs: Float64,
        weights: Float32 | None = None,
    ) -> None:
        """Do `soften_rows` in 16 bits, rounded to nearest, halves up: nine bits of fraction and seven of exponent."""
        for rows in self._slabs(scores):
            soft = torch.empty_like(scores[rows])
            some = None if weights is None else weights[rows]
            self.soften_rows(scores[rows], h, beta, soft, totals, logs[rows], some)
            out[rows] = soft.view(torch.int32).add_(DROPPED_HALF).bitwise_right_shift_(DROPPED_BITS)  # to 16 bits

    def balance_rows(
        self, kept: Tensor, scale: Float32, totals: Float64, sums: Float64, weights: Float32 | None = None
    ) -> None:
        """Sweep once over kept rows: sums = kept @ scale, then totals += weight * kept / sums, row by row."""
        factors, shares = self._on(scale), self._weights(weights, len(kept))
        for rows in self._slabs(kept):
            total = kept[rows] @ factors
            totals += self.host((shares[rows] / total) @ kept[rows])
            sums[rows] = self.host(total)

    def balance_short_rows(
        self, kept: Tensor, scale: Float32, totals: Float64, sums: Float64, weights: Float32 | None = None
    ) -> None:
        """Do `balance_rows` on rows kept in 16 bits."""
        for rows in self._slabs(kept):
            # The 16 bits have no sign, which torch's would repeat in all bits above them.
            bits = kept[rows].to(torch.int32).bitwise_left_shift_(DROPPED_BITS).bitwise_and_(SHARE_BITS)
            wide = bits.view(torch.float32)
            self.balance_rows(wide, scale, totals, sums[rows], None if weights is None else weights[rows])

    def deviate_rows(
        self,
        scores: Tensor,
        h: Float32,
        beta: float,
        out: Tensor,
        totals: Float64,
        logs: Float64,
        weights: Float32 | None = None,
    ) -> None:
        """Do `soften_rows` where beta * (score - h) is small: instead of a share, write columns * share - 1."""
        bias, shares, columns = self._on(h), self._weights(weights, len(scores)), scores.shape[1]
        for rows in self._slabs(scores):
            slab = torch.sub(scores[rows], bias, out=out[rows]).mul_(beta).expm1_()
            mean = slab.mean(dim=1)
            slab -= mean[:, None]
            slab *= (1 / (1 + mean))[:, None]
            # The rest of the mean, which float32 rounded, is the mean of what is left.
            rest = slab.mean(dim=1)
            slab -= rest[:, None]
            exact = self.host(mean).astype(np.float64)
            exact += self.host(rest).astype(np.float64) * (1 + exact)
            own = float(rows.stop - rows.start if weights is None else np.sum(weights[rows], dtype=np.float64))
            totals += (own + self.host(shares[rows] @ slab).astype(np.float64)) / columns
            logs[rows] = math.log(columns) + np.log1p(exact)

    def balance_deviations(
        self, kept: Tensor, scale: Float64, totals: Float64, sums: Float64, weights: Float32 | None = None
    ) -> None:
        """Do `balance_rows` on what `deviate_rows` wrote."""
        columns, whole, factors = kept.shape[1], scale.sum(), self._on(scale.astype(np.float32))
        for rows in self._slabs(kept):
            total = (whole + self.host(kept[rows] @ factors).astype(np.float64)) / columns
            sums[rows] = total
            share = (1 if weights is None else weights[rows].astype(np.float64)) / total
            over = self.host(self._on(share.astype(np.float32)) @ kept[rows]).astype(np.float64)
            totals += (share.sum() + over) / columns

    def keep_shares(
        self, shares: Tensor, rises: Float32, draws: Float32, places: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], Float32]:
        """Return the entries to keep, on the host: column j of row i where rise * share > draws[place + j]."""
        windows, counts, columns, values = self._on(draws).unfold(0, shares.shape[1], 1), [], [], []
        for rows in self._slabs(shares):
            slab, rise = shares[rows], self._on(rises[rows])[:, None]
            kept = slab * rise > windows[self._on(places[rows])]
            counts.append(self.host(kept.sum(dim=1)))
            columns.append(self.host(kept.nonzero()[:, 1].to(torch.int32)))
            values.append(self.host(torch.maximum(slab, 1 / rise)[kept]))
        return np.concatenate(counts), np.concatenate(columns), np.concatenate(values)

    balance_entries = staticmethod(balance_entries)  # these are on the host

    # Rows as they are read.

    def hash_rows(
        self, block: Tensor, words: Tensor, keys: NDArray[np.uint64], sums: NDArray[np.uint64], squares: Float32
    ) -> None:
        """Sum (low half + key) * (high half + key) over each row of 64-bit words, modulo 2**64; and its squares."""
        low_keys, high_keys = (self._on(one.view(np.int64)) for one in keys)
        for rows in self._slabs(block):
            floats = block[rows] + 0.0  # -0.0 + 0.0 is 0.0
            if floats.shape[1] % 2:
                floats = torch.nn.functional.pad(floats, (0, 1))
            halves = floats.view(torch.int32).to(torch.int64) & LOW_WORD
            products = (halves[:, 0::2] + low_keys) * (halves[:, 1::2] + high_keys)  # modulo 2**64, as the sum
            sums[rows] = self.host(products.sum(dim=1)).view(np.uint64)
            squares[rows] = self.host((floats * floats).sum(dim=1))

    def are_finite(self, block: Tensor, finite: NDArray[np.bool_]) -> None:
        """Write for each row whether all its numbers are finite."""
        finite[...] = self.host(torch.isfinite(block).all(dim=1))

    def unit_rows(self, block: Tensor) -> Tensor:
        """Return the rows scaled to length one."""
        lengths = (block * block).sum(dim=1).sqrt()
        if bool(((lengths > LEAST_LENGTH) & (lengths < MOST_LENGTH)).all()):
            return block * (1 / lengths)[:, None]
        return self._on(unit(self.host(block)))  # the squares are outside the range of float32
