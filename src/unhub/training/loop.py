"""The training loop: one learning rate after another, keeping the best epoch of the best rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch

from unhub.errors import ArgumentError
from unhub.model.record import Epoch, Tried
from unhub.training.batches import batches
from unhub.training.checkpoints import Checkpoint, Current, State, Weights
from unhub.training.network import Data, Network
from unhub.training.settings import Settings


@dataclass(frozen=True)
class Step:
    """Progress of training: steps done of all, the rate, the epoch, its mean loss so far, the last validation R@1."""

    done: int
    total: int
    rate: float
    epoch: int
    loss: float
    recall: float | None


Watch: TypeAlias = Callable[[Step], None]


def learn(
    network: Network,
    data: Data,
    validation: Data | None,
    settings: Settings,
    state: State,
    checkpoint: Checkpoint | None,
    watch: Watch | None,
) -> tuple[Weights, list[Tried]]:
    """Train with each rate from the same weights; return the weights of the best epoch of the best rate, and all tried.

    The best epoch has the highest R@1 on validation, the earlier of two equals; without validation it is the last one.
    A rate whose loss or vectors stop being finite has failed; it is an error if all rates fail.
    """
    initial = state.initial or copied(network)
    state.initial = initial if len(settings.rates) > 1 else {}
    for number in range(len(state.tried), len(settings.rates)):
        lap = _Lap(network, data, validation, settings, number, watch)
        current = lap.start(initial, state.current)
        state.current = current
        failed = ""
        while not failed and not _is_over(current, settings):
            failed = lap.epoch(current)
            if checkpoint is not None and not failed:
                checkpoint.write(state)
        state.tried.append(Tried(settings.rates[number], 0 if failed else current.best, tuple(current.epochs), failed))
        if best_of(state.tried) is state.tried[-1]:
            state.winner = current.best_weights
        state.current = None
        if checkpoint is not None:
            checkpoint.write(state)
    if best_of(state.tried) is None:
        network.modules.load_state_dict(initial)  # a user's own modules keep usable weights
        reasons = ", ".join(f"with {one.rate:g} {one.failed}" for one in state.tried)
        raise ArgumentError("rate", f"is too high: {reasons}", "give a lower one")
    return state.winner, state.tried


def best_of(tried: Sequence[Tried]) -> Tried | None:
    """Return the rate with the highest R@1 on validation, the first of equal ones; None if all failed."""
    return max((one for one in tried if not one.failed), key=_recall, default=None)


def copied(network: Network) -> Weights:
    """Return a copy of all weights."""
    return {name: weight.detach().clone() for name, weight in network.modules.state_dict().items()}


def _recall(tried: Tried) -> float:
    return -math.inf if tried.kept.recall is None else tried.kept.recall


def _is_over(current: Current, settings: Settings) -> bool:
    done = len(current.epochs)
    return done == settings.epochs or (settings.patience is not None and done - current.best >= settings.patience > 0)


class _Lap:
    """The training with one learning rate."""

    def __init__(
        self,
        network: Network,
        data: Data,
        validation: Data | None,
        settings: Settings,
        number: int,
        watch: Watch | None,
    ) -> None:
        self.network, self.data, self.validation, self.settings = network, data, validation, settings
        self.number, self.peak, self.watch = number, settings.rates[number], watch
        of_head = {id(one) for one in network.head.parameters()}
        learnt = [one for one in network.modules.parameters() if one.requires_grad]
        parts = (
            ([one for one in learnt if id(one) not in of_head], self.peak),
            ([one for one in learnt if id(one) in of_head], settings.head_peak(self.peak)),
        )
        # The fused optimiser, if the weights allow it, is several times faster on a CPU.
        fused = all(one.is_floating_point() and one.device.type in ("cpu", "cuda") for one in learnt)
        groups = [{"params": part, "lr": peak, "peak": peak} for part, peak in parts if part]
        self.optimiser = torch.optim.AdamW(groups, weight_decay=settings.weight_decay, fused=fused)
        self.per_epoch = -(-len(data.captions) // settings.batch)

    def start(self, initial: Weights, current: Current | None) -> Current:
        """Set the network to the state reached before, or to the first weights."""
        if current is None:
            self.network.modules.load_state_dict(initial)
            return Current(initial, self.optimiser.state_dict(), initial)
        self.network.modules.load_state_dict(current.weights)
        self.optimiser.load_state_dict(current.optimiser)
        return current

    def epoch(self, current: Current) -> str:
        """Train for one more epoch, validate, and record it in `current`; return why it failed, or nothing."""
        number = len(current.epochs) + 1
        settings = self.settings
        torch.manual_seed(int(np.random.SeedSequence([settings.seed, number]).generate_state(1)[0]))
        self.network.modules.train()
        total, recall = 0.0, current.epochs[-1].recall if current.epochs else None
        for step, batch in enumerate(batches(self.data.captions, settings, number)):
            at = (number - 1) * self.per_epoch + step
            for group in self.optimiser.param_groups:
                group["lr"] = settings.rate_at(group["peak"], at, settings.epochs * self.per_epoch)
            loss = self.network.loss(self.data, batch, settings)
            value = loss.item()
            if not math.isfinite(value):
                return f"the loss is {value} in epoch {number}"
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()
            total += value
            if self.watch is not None:
                self.watch(self._step(at + 1, number, total / (step + 1), recall))
        recall = None if self.validation is None else self.network.recall(self.validation, settings)
        if recall is None and not self.network.is_sound(self.data, batch, settings):
            return f"the vectors are not finite after epoch {number}"
        if recall is not None and not math.isfinite(recall):
            return f"the vectors of validation are not finite after epoch {number}"
        current.weights, current.optimiser = copied(self.network), self.optimiser.state_dict()
        if recall is None or current.best == 0 or recall > (current.epochs[current.best - 1].recall or 0):
            current.best, current.best_weights = number, current.weights
        current.epochs.append(Epoch(number, total / self.per_epoch, recall))
        return ""

    def _step(self, done: int, epoch: int, loss: float, recall: float | None) -> Step:
        whole = self.per_epoch * self.settings.epochs
        return Step(self.number * whole + done, whole * len(self.settings.rates), self.peak, epoch, loss, recall)
