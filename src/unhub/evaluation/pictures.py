"""Pictures: a chart drawn once with matplotlib, for a file or for a page that may be light or dark."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from unhub.atomic import FileKind, file_kind, replacing
from unhub.errors import optional

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A file has these colours; a page replaces each by a variable of its style sheet. Raw and corrected are of the palette
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
LINE_INKS = ("fixed", "third", "fourth", "soft")  # of the corrections of one chart, in order
DOTS_PER_INCH = 160  # per inch of a PNG
MAKER = "unhub"  # as our pictures say; those of 0.1.0 name none, and have only our resolution, or no date, besides
_METRE = re.escape(round(DOTS_PER_INCH / 0.0254).to_bytes(4, "big"))  # dots
_WORK = (
    rb"<\?xml[^>]*>\s*<!DOCTYPE svg[^>]*>\s*<svg[^>]*>\s*<metadata>\s*<rdf:RDF[^>]*>\s*<cc:Work>\s*<dc:type[^>]*>\s*"
)
_WORK += rb"<dc:format>image/svg\+xml</dc:format>\s*"
PICTURE_FILES: Mapping[str, FileKind] = {
    "png": file_kind(
        "a PNG picture that unhub drew",
        rb"\x89PNG\r\n\x1a\n.{0,128}tEXtSoftware\x00" + MAKER.encode(),
        rb"\x89PNG\r\n\x1a\n.{29}pHYs" + _METRE * 2 + rb"\x01.{8}IDAT",
    ),
    "svg": file_kind(
        "an SVG picture that unhub drew",
        _WORK + rb"<dc:creator>\s*<cc:Agent>\s*<dc:title>" + MAKER.encode() + rb"</dc:title>",
        _WORK + rb"</cc:Work>",
    ),
}
FORMS = tuple(PICTURE_FILES)

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
    """A chart: the stem of its file's name, its title, what it shows in words, and how it is drawn."""

    name: str
    title: str
    words: str
    draw: Draw
    size: tuple[float, float] = (4.6, 3.1)

    def to_bytes(self, form: str) -> bytes:
        """Return the picture as a PNG or SVG file, with its title."""
        return self._render(form, titled=True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a .png or .svg file."""
        form = check_form(path)
        data = self.to_bytes(form)
        with replacing(path, PICTURE_FILES[form]) as temporary:
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


def check_drawable(path: str | os.PathLike[str]) -> FileKind:
    """Return the kind of picture that a file's name asks for; raise if it asks for none, or matplotlib is absent."""
    form = check_form(path)
    optional("matplotlib.figure", "plot", "a picture")
    return PICTURE_FILES[form]


def check_form(path: str | os.PathLike[str]) -> str:
    """Return the form that a file's name asks for, `png` or `svg`; another is an error."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in FORMS:
        raise ValueError(f"{path}: a picture is a .png or a .svg file; name one")
    return form
