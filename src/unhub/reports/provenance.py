"""How a report was made: the data with its hashes, the parameters, the versions and the command."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata

from unhub.arrays import Kind
from unhub.correction import Correction
from unhub.data.fingerprint import Fingerprint, inspect
from unhub.data.vectors import Vectors

LIBRARIES = ("unhub", "numpy", "matplotlib")


def facts(
    sets: Mapping[str, Vectors], similarity: Kind, corrections: Mapping[str, Correction], more: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return what one needs to make the report again, as (name, value) for people."""
    data = [(name, _data(name, vectors, similarity)) for name, vectors in sets.items()]
    fitted = [("correction", _fitted(name, one)) for name, one in corrections.items()]
    return [*data, ("similarity", similarity), *fitted, *more.items(), ("versions", _versions()), ("made", _now())]


def _data(name: str, vectors: Vectors, similarity: Kind) -> str:
    digest = Fingerprint.of(inspect(vectors, name, similarity).hashes).digest
    return f"{len(vectors):,} rows, {vectors.dimensions} dimensions, hash {digest:016x}"


def _fitted(name: str, correction: Correction) -> str:
    bank = "" if correction.source.bank is None else f" on a bank of {correction.source.bank.count:,}"
    known = f"{name}: {correction.spec}" if name != correction.spec else name
    notes = "".join(f"; {note}" for note in correction.cost.notes)
    return f"{known}, fitted{bank} in {correction.cost.seconds:.2f} s{notes}"


def _versions() -> str:
    found = []
    for library in LIBRARIES:
        try:
            found.append(f"{library} {metadata.version(library)}")
        except metadata.PackageNotFoundError:
            continue  # run from a checkout that is not installed
    return ", ".join([*found, f"Python {platform.python_version()}"])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
