"""Pictures: charts drawn with matplotlib, for a file or for a page in light or dark colours."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from unhub.atomic import replacing
from unhub.errors import optional
from unhub.files.container import check_replaceable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours of a file; a page replaces each by a variable of its style sheet. Raw and corrected are from the palette
# of Okabe and Ito, made for colour-blind readers.
INKS: Mapping[str, str] = {
    "paper": "#fefefe",
    "ink": "#1f2430",
    "soft": "#667085",
    "faint": "#dfe3ea",
    "raw": "#d55e00",
    "fixed": "#0072b2",
    "third": "#00805f",
    "fourth": "#a83f7d",
}
LINE_INKS = ("fixed", "third", "fourth", "soft")  # for the corrections of one chart, in order
SIZE_INCHES = (4.6, 3.1)
DOTS_PER_INCH = 160  # of a PNG
MOST_LEGEND_COLUMNS = 4
LETTER_INCHES, LEGEND_LINE_INCHES = 0.075, 0.5  # widths in a legend: a letter, and a line with its gaps
AXIS_INCHES = 0.4  # left of the axes
MAKER = "unhub"  # in the metadata of our pictures
# Bytes near the beginning of a picture that unhub wrote.
MARKS: Mapping[str, bytes] = {
    "png": f"tEXtSoftware\0{MAKER}".encode(),
    "svg": f"<dc:title>{MAKER}</dc:title>".encode(),
}
FORMS = tuple(MARKS)

Draw: TypeAlias = "Callable[[Figure], None]"

STYLE: Mapping[str, object] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "text.color": INKS["ink"],
    "axes.edgecolor": INKS["soft"],
    "axes.facecolor": "none",
    "axes.labelcolor": INKS["ink"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "xtick.color": INKS["soft"],
    "ytick.color": INKS["soft"],
    "xtick.labelcolor": INKS["ink"],
    "ytick.labelcolor": INKS["ink"],
    "legend.frameon": False,
    "legend.fontsize": 9,
    "text.parse_math": False,  # a name may hold dollar signs
    "figure.facecolor": INKS["paper"],
    "svg.fonttype": "none",
    "svg.hashsalt": "unhub",
}


@dataclass(frozen=True, eq=False)
class Picture:
    """A chart: the stem of its file's name, its title, what it shows in words, how it is drawn, its size in inches."""

    name: str
    title: str
    words: str
    draw: Draw
    size: tuple[float, float] = SIZE_INCHES

    def to_bytes(self, form: str) -> bytes:
        """Return the picture as a PNG or SVG file, with its title."""
        return self._render(form, titled=True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a .png or .svg file; only an empty file or one of ours is replaced."""
        form = check_form(path)
        check_replaceable(path, MARKS[form])
        data = self.to_bytes(form)
        with replacing(path) as temporary:
            temporary.write_bytes(data)

    def inline(self) -> str:
        """Return the picture as an SVG element of a page, with no title, in the colours of the page."""
        svg = self._render("svg", titled=False).decode()
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
        # A page holds several pictures, so their ids must differ.
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{self.name}-", svg)
        for ink, colour in INKS.items():
            svg = svg.replace(colour, f"var(--{ink})")
        head, _, rest = svg.partition(">")
        box = re.search(r'viewBox="[^"]*"', head)
        words = escape(self.words)
        return f'<svg {box[0] if box else ""} role="img" aria-label="{words}"><title>{words}</title>{rest.strip()}'

    def _render(self, form: str, titled: bool) -> bytes:
        matplotlib = optional("matplotlib", "plot", "a picture")
        with matplotlib.rc_context(dict(STYLE)):
            figure = optional("matplotlib.figure", "plot", "a picture").Figure(
                figsize=self.size, layout="constrained", dpi=DOTS_PER_INCH
            )
            self.draw(figure)
            if titled:
                figure.suptitle(self.title, x=0.01, ha="left", fontsize=11)
            file = io.BytesIO()
            # Without a date or a version, the same chart is the same file.
            metadata = {"Software": MAKER} if form == "png" else {"Date": None, "Creator": MAKER}
            figure.savefig(file, format=form, metadata=metadata, transparent=not titled)
        return file.getvalue()


def axis_of(measured: str, falls: bool) -> str:
    """Return the label of an axis: what is measured, with its unit, and a remark if lower is better."""
    return f"{measured}, lower is better" if falls else measured


def draw_levels(axes: Axes) -> None:
    """Draw faint horizontal lines behind a chart."""
    axes.grid(axis="y", color=INKS["faint"], linewidth=0.8)
    axes.set_axisbelow(True)


def draw_legend(axes: Axes) -> None:
    """Put the legend above the axes, where it hides nothing, in as many columns as a picture holds."""
    _, labels = axes.get_legend_handles_labels()
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=_legend_columns([str(one) for one in labels]),
        handlelength=1.9,
        columnspacing=1.2,
        borderaxespad=0.2,
    )


def _legend_columns(labels: Sequence[str]) -> int:
    """Return how many columns of a legend fit; a wider legend would leave no room for the axes."""
    for columns in range(MOST_LEGEND_COLUMNS, 1, -1):
        longest = [max(map(len, part)) for part in np.array_split(np.array(labels, dtype=object), columns) if len(part)]
        if sum(longest) * LETTER_INCHES + len(longest) * LEGEND_LINE_INCHES <= SIZE_INCHES[0] - AXIS_INCHES:
            return columns
    return 1


def check_drawable(path: str | os.PathLike[str]) -> str:
    """Return the format that a file's name asks for; raise if it is not known, or matplotlib is missing."""
    form = check_form(path)
    optional("matplotlib.figure", "plot", "a picture")
    return form


def check_form(path: str | os.PathLike[str]) -> str:
    """Return the format that a file's name asks for, `png` or `svg`; raise for any other."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in FORMS:
        raise ValueError(f"{path} is not the name of a picture; end it in .png or .svg")
    return form
