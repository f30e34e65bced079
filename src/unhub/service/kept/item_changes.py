"""Changes to the items: a file each, applied again in their order when the service starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from unhub.arrays import Float32, Ids
from unhub.atomic import replacing
from unhub.data.vectors import Vectors
from unhub.files.numpy_files import read_npz
from unhub.search.hits import Id
from unhub.service.served import Gallery

DIGITS = 6


@dataclass(frozen=True, eq=False)
class ItemChange:
    """Items that were added, with their texts, and ids of items that were removed before: the same if replaced."""

    ids: Ids
    rows: Float32
    texts: Mapping[Id, str] = field(default_factory=dict)
    gone: tuple[Id, ...] = ()

    def applied(self, gallery: Gallery) -> Gallery:
        """Return the gallery after the change."""
        left = gallery.without(self.gone) if self.gone else gallery
        after = left.added(self.ids, self.rows, self.texts) if len(self.ids) else left
        return replace(after, revision=gallery.revision + 1)


class GatheredChanges:
    """Changes that came one after the other, gathered to be applied at once: each alone would copy all before it."""

    def __init__(self, gallery: Gallery) -> None:
        self._before, self._items = gallery, gallery.held
        self._places = {one: row for row, one in enumerate(self._items.ids.tolist())}
        self._gone: set[Id] = set()  # of the items to begin with
        self._added: dict[Id, Float32] = {}
        self._texts: dict[Id, str] = {}

    def add(self, change: ItemChange) -> None:
        """Add the next change; raise if the items before it are not those that it was made on."""
        for one in dict.fromkeys(change.gone):
            if self._added.pop(one, None) is None:
                if not self._is_first(one):
                    raise ValueError(f"there is no item {one!r} to remove")
                self._gone.add(one)
            self._texts.pop(one, None)
        if change.rows.shape[1] != self._items.dimensions or change.ids.dtype.kind != self._items.ids.dtype.kind:
            raise ValueError("other ids or dimensions")
        for one, row in zip(change.ids.tolist(), change.rows, strict=True):
            if one in self._added or self._is_first(one):
                raise ValueError(f"there is an item {one!r} already")
            self._added[one] = row
        self._texts |= change.texts

    def applied(self, revision: int) -> Gallery:
        """Return the gallery after all of them."""
        gone = np.array([self._places[one] for one in self._gone], np.int64)
        texts = {one: text for one, text in self._before.texts.items() if one not in self._gone}
        extra = Vectors(np.array([*self._added]), np.stack([*self._added.values()])) if self._added else None
        kept = np.delete(np.arange(len(self._items)), gone) if len(gone) else None
        return replace(self._before, texts={**texts, **self._texts}, kept=kept, extra=extra, revision=revision)

    def _is_first(self, one: Id) -> bool:
        return one in self._places and one not in self._gone


class KeptChanges:
    """The changes of a service in a folder; without one they are forgotten when it ends."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def replay(self, gallery: Gallery) -> Gallery:
        """Return the gallery after all changes that were kept."""
        named = [] if self.folder is None else [path for path in self.folder.glob("*.npz") if path.stem.isdecimal()]
        if not named:
            return gallery
        paths = sorted(named, key=lambda path: int(path.stem))
        changes = GatheredChanges(gallery)
        for path in paths:
            try:
                changes.add(_read(path))
            except (ValueError, KeyError) as error:
                raise ValueError(f"{path}: cannot be applied to these items ({error})") from None
        return changes.applied(int(paths[-1].stem))

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
