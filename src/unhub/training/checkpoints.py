"""Checkpoints: all that a training needs to go on as if it had never stopped, in one file that is never half written.

What is random in an epoch is drawn from the seed and the epoch's number, so no state of a generator has to be kept.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from unhub.atomic import check_target, remove_strays, replacing
from unhub.model.record import Epoch, Tried, as_tried

Weights: TypeAlias = dict[str, Tensor]

FORMAT = 1


@dataclass
class Current:
    """A rate that is being tried: its epochs so far, the weights and the optimiser after them, and the best weights."""

    weights: Weights
    optimiser: dict[str, Any]
    best_weights: Weights
    best: int = 0
    epochs: list[Epoch] = field(default_factory=list)


@dataclass
class State:
    """How far a training has come: the rates that are done, the weights of the best of them, the one under way.

    initial: the weights that each rate starts from, kept where there are several rates.
    """

    tried: list[Tried] = field(default_factory=list)
    winner: Weights = field(default_factory=dict)
    initial: Weights = field(default_factory=dict)
    current: Current | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A file that holds the state; `key` tells the data and settings it belongs to, by name."""

    path: Path
    key: dict[str, object]

    def write(self, state: State) -> None:
        """Put the state in the place of the last one, at once."""
        content: dict[str, Any] = {
            "unhub checkpoint": FORMAT,
            "key": json.dumps(self.key),
            "tried": json.dumps([asdict(one) for one in state.tried]),
            "winner": state.winner,
            "initial": state.initial,
        }
        if state.current is not None:
            current = state.current
            content["current"] = {
                "weights": current.weights,
                "optimiser": current.optimiser,
                "best_weights": current.best_weights,
                "best": current.best,
                "epochs": json.dumps([asdict(one) for one in current.epochs]),
            }
        with replacing(self.path) as temporary:
            torch.save(content, temporary)

    def read(self) -> State:
        """Return the state of the file, which must be of the same data and settings."""
        content = self._content()
        was, now = json.loads(content["key"]), json.loads(json.dumps(self.key))
        for name in now:
            if was.get(name) != now[name]:
                raise ValueError(
                    f"checkpoint: {self.path} is of another training: {_difference(name, was.get(name), now[name])}; "
                    "name another file, or train as before"
                )
        state = State([as_tried(one) for one in json.loads(content["tried"])], content["winner"], content["initial"])
        if "current" in content:
            saved = content["current"]
            epochs = [Epoch(**one) for one in json.loads(saved["epochs"])]
            state.current = Current(saved["weights"], saved["optimiser"], saved["best_weights"], saved["best"], epochs)
        return state

    def _content(self) -> dict[str, Any]:
        try:
            content = torch.load(self.path, map_location="cpu", weights_only=True)
        except (RuntimeError, OSError, EOFError, KeyError, pickle.UnpicklingError) as error:  # by where it is damaged
            raise ValueError(
                f"checkpoint: {self.path} is damaged or no checkpoint ({str(error).partition(chr(10))[0]})"
            ) from None
        if not isinstance(content, dict) or content.get("unhub checkpoint") != FORMAT:
            raise ValueError(f"checkpoint: {self.path} is no checkpoint that this unhub wrote")
        return content


def _difference(name: str, was: object, now: object) -> str:
    """Return in words what differs between two values of a key, the first of its parts that does."""
    if not (isinstance(was, dict) and isinstance(now, dict)):
        return f"{name} was {was!r}, now it is {now!r}"
    part = next(one for one in (*was, *now) if was.get(one) != now.get(one))
    return _difference(f"{name} {part}", was.get(part), now.get(part))


def open_checkpoint(path: Path, key: dict[str, object], resume: bool) -> tuple[Checkpoint, State]:
    """Return where to keep the state, and the state to begin with; a file that is there must be asked for."""
    checkpoint = Checkpoint(check_target(path), key)
    if path.exists() and not resume:
        raise ValueError(f"checkpoint: {path} exists; go on from it with resume=True, or name another file")
    state = checkpoint.read() if path.exists() else State()
    remove_strays(path)
    return checkpoint, state
