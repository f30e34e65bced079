"""Checkpoints: everything needed to resume a training as if it had never stopped, in one file written atomically.

Random numbers come from the seed and the number of the epoch, so the state of no generator has to be kept.
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
from unhub.errors import ArgumentError
from unhub.model.record import Epoch, Tried, as_tried

Weights: TypeAlias = dict[str, Tensor]

FORMAT = 1


@dataclass
class Current:
    """The rate being tried: its epochs so far, the weights and the optimiser after them, and the best weights."""

    weights: Weights
    optimiser: dict[str, Any]
    best_weights: Weights
    best: int = 0
    epochs: list[Epoch] = field(default_factory=list)


@dataclass
class State:
    """The progress of a training: the rates that are done, the weights of the best of them, and the rate being tried.

    initial: the weights that each rate starts from, kept if there are several rates.
    """

    tried: list[Tried] = field(default_factory=list)
    winner: Weights = field(default_factory=dict)
    initial: Weights = field(default_factory=dict)
    current: Current | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A file that holds the state; `key` names the data and settings it belongs to."""

    path: Path
    key: dict[str, object]

    def write(self, state: State) -> None:
        """Replace the state in the file, atomically."""
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
        """Return the state in the file, which must have the same data and settings."""
        content = self._content()
        was, now = json.loads(content["key"]), json.loads(json.dumps(self.key))
        for name in now:
            if was.get(name) != now[name]:
                raise ArgumentError(
                    "checkpoint",
                    f"{self.path} is of another training: {_difference(name, was.get(name), now[name])}",
                    "name another file, or train as before",
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
        except (
            RuntimeError,
            OSError,
            EOFError,
            KeyError,
            pickle.UnpicklingError,
        ) as error:  # depending on where it is damaged
            reason = str(error).partition("\n")[0]
            raise ArgumentError(
                "checkpoint", f"{self.path} is damaged or not a checkpoint ({reason})", "name another file"
            ) from None
        if not isinstance(content, dict) or content.get("unhub checkpoint") != FORMAT:
            raise ArgumentError(
                "checkpoint", f"{self.path} was not written by this version of unhub", "name another file"
            )
        return content


def _difference(name: str, was: object, now: object) -> str:
    """Say how two values of a key differ, by the first of their parts that does."""
    if not (isinstance(was, dict) and isinstance(now, dict)):
        return f"{name} was {was!r}, now it is {now!r}"
    part = next(one for one in (*was, *now) if was.get(one) != now.get(one))
    return _difference(f"{name} {part}", was.get(part), now.get(part))


def open_checkpoint(path: Path, key: dict[str, object], resume: bool) -> tuple[Checkpoint, State]:
    """Return where to keep the state, and the state to begin with; an existing file is used only with `resume`."""
    checkpoint = Checkpoint(check_target(path), key)
    if path.exists() and not resume:
        raise ArgumentError("checkpoint", f"{path} exists", "resume from it, or name another file")
    state = checkpoint.read() if path.exists() else State()
    remove_strays(path)
    return checkpoint, state
