"""Solvers that fail as they may on large problems."""

from importlib import import_module
from typing import cast

import pytest

from unhub.compute import transport


def stop_pot_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let POT's network simplex end after one step."""
    ot = import_module("ot")
    emd = ot.emd

    def one_step(*given: object, **options: object) -> object:
        return cast("object", emd(*given, **{**options, "numItermax": 1}))

    monkeypatch.setattr(ot, "emd", one_step)


def stop_newton_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Newton's method end after one step at each reg."""
    monkeypatch.setattr(transport, "MOST_NEWTON_STEPS", 1)
