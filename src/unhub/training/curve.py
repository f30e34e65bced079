"""The training curve: the loss and R@1 on validation over the epochs, as a picture."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from unhub.errors import ArgumentError
from unhub.evaluation.pictures import INKS, Picture, draw_legend, draw_levels
from unhub.model import Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_curve(model: Model, path: str | os.PathLike[str]) -> None:
    """Draw the loss and R@1 on validation over the epochs to a .png or .svg file; other rates are thin lines."""
    curve(model).save(path)


def curve(model: Model) -> Picture:
    """Return the training curve of a model as a picture."""
    training = model.training
    if training.chosen is None:
        raise ArgumentError("model", "has no history to draw: it was not trained here")
    validated = training.chosen.kept.recall is not None

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        parts = figure.subplots(2 if validated else 1, sharex=True, squeeze=False)[:, 0]
        _draw(parts[0], model, "loss", "loss", "raw")
        if validated:
            _draw(parts[1], model, "recall", "validation R@1", "fixed")
            draw_legend(parts[1])
        parts[-1].set_xlabel("epoch")
        parts[-1].xaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))

    kept = training.chosen.kept
    words = f"Epoch {kept.number} at rate {training.rate:g} was kept: loss {kept.loss:.3f}"
    words += f", validation R@1 {kept.recall:.2f}." if kept.recall is not None else "."
    size = (4.6, 4.4) if validated else (4.6, 2.8)
    return Picture("training", f"Training of {model.head.name}", words, draw, size=size)


def _draw(axes: Axes, model: Model, value: str, label: str, ink: str) -> None:
    chosen = model.training.chosen
    for one in model.training.tried:
        values = [getattr(epoch, value) for epoch in one.epochs]
        places = [epoch.number for epoch in one.epochs]
        if one is chosen:
            axes.plot(places, values, color=INKS[ink], linewidth=2, label=f"rate {one.rate:g}", zorder=3)
            axes.plot(one.best, values[one.best - 1], "o", color=INKS[ink], markersize=5.5, label="kept", zorder=4)
        elif one.epochs:  # a rate may have failed at once
            axes.plot(places, values, color=INKS["soft"], linewidth=0.9, alpha=0.8)
            axes.annotate(
                f"{one.rate:g}",
                (places[-1], values[-1]),
                xytext=(3, 0),
                textcoords="offset points",
                fontsize=7,
                color=INKS["soft"],
                va="center",
            )
    axes.set_ylabel(label)
    draw_levels(axes)
