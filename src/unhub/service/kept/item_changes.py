"""Changes to the items: a file each, applied again in their order when the service starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from unhub.arrays import Float32, Ids
from unhub.atomic import replacing
from unhub.files.numpy_files import read_npz
from unhub.search.hits import Id
from unhub.service.served import Gallery

DIGITS = 6


@dataclass(frozen=True, eq=False)
class ItemChange:
    """Items that were added, with their texts, and ids of items that were removed."""

    ids: Ids
    rows: Float32
    texts: Mapping[Id, str] = field(default_factory=dict)
    gone: tuple[Id, ...] = ()

    def applied(self, gallery: Gallery) -> Gallery:
        """Return the gallery after the change."""
        if self.gone:
            return gallery.without(self.gone)
        return gallery.added(self.ids, self.rows, self.texts)


class KeptChanges:
    """The changes of a service in a folder; without one they are forgotten when it ends."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def replay(self, gallery: Gallery) -> Gallery:
        """Return the gallery after all changes that were kept."""
        for path in [] if self.folder is None else sorted(self.folder.glob("*.npz")):
            try:
                gallery = _read(path).applied(gallery)
            except (ValueError, KeyError) as error:
                raise ValueError(f"{path}: cannot be applied to these items ({error})") from None
        return gallery

    def keep(self, change: ItemChange, revision: int) -> None:
        """Write a change, whole or not at all."""
        if self.folder is None:
            return
        told = json.dumps({"texts": list(change.texts.items()), "gone": list(change.gone)})
        with replacing(self.folder / f"{revision:0{DIGITS}}.npz") as path, path.open("wb") as file:
            np.savez(
                file,
                vectors=change.rows,
                ids=change.ids,
                told=np.frombuffer(told.encode("utf-8", "surrogatepass"), np.uint8),
            )


def _read(path: Path) -> ItemChange:
    found = read_npz(path)
    ids = found.ids()
    with np.load(path, allow_pickle=False) as archive:
        told = json.loads(archive["told"].tobytes().decode("utf-8", "surrogatepass"))
    rows = np.asarray(found.rows, np.float32)
    return ItemChange(np.asarray(ids), rows, dict(told["texts"]), tuple(told["gone"]))
