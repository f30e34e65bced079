"""Thumbnails: pictures made small and put into the page itself, so that it needs no other file."""

from __future__ import annotations

import base64
import io
import warnings

from unhub.errors import optional

SIDE = 176  # pixels at most, twice what is shown, for sharp screens
QUALITY = 72


class Thumbnails:
    """Makes each picture small once, and remembers those that could not be read."""

    def __init__(self) -> None:
        self._made: dict[str, str | None] = {}

    @property
    def missing(self) -> list[str]:
        """The paths that could not be read as pictures."""
        return sorted(path for path, made in self._made.items() if made is None)

    def source(self, path: str) -> str | None:
        """Return the picture as a data URI, or None where it cannot be read."""
        if path not in self._made:
            self._made[path] = _data_uri(path)
        return self._made[path]


def _data_uri(path: str) -> str | None:
    images, operations = (optional(f"PIL.{name}", "plot", "a thumbnail") for name in ("Image", "ImageOps"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a picture with odd metadata is still a picture
            with images.open(path) as opened:
                upright = operations.exif_transpose(opened)
                clear = "A" in upright.getbands() or "transparency" in upright.info
                small = upright.convert("RGBA" if clear else "RGB")
                small.thumbnail((SIDE, SIDE))
    except (OSError, ValueError, SyntaxError, images.DecompressionBombError):
        return None
    if clear:  # a JPEG is not: lay it on white paper
        small = images.alpha_composite(images.new("RGBA", small.size, "white"), small).convert("RGB")
    file = io.BytesIO()
    small.save(file, "JPEG", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
