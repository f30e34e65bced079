"""Correct hubness in cross-modal vector search: fit one number per item on past queries, rank by what is left."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unhub.correction import Bias, Plan, Rescore
    from unhub.files import load, read_vectors, save
    from unhub.fitting import fit
    from unhub.indexes.augment import augment, augment_queries, augment_radius, augment_scores
    from unhub.search import Hits, Searcher, searcher
    from unhub.similarity import Dense
    from unhub.upkeep import extend, merge, remove
    from unhub.vectors import Vectors

    __version__: str

__all__ = [
    "Bias",
    "Dense",
    "Hits",
    "Plan",
    "Rescore",
    "Searcher",
    "Vectors",
    "__version__",
    "augment",
    "augment_queries",
    "augment_radius",
    "augment_scores",
    "extend",
    "fit",
    "load",
    "merge",
    "read_vectors",
    "remove",
    "save",
    "searcher",
]

_HOMES = {
    "correction": ("Bias", "Plan", "Rescore"),
    "files": ("load", "read_vectors", "save"),
    "fitting": ("fit",),
    "indexes.augment": ("augment", "augment_queries", "augment_radius", "augment_scores"),
    "search": ("Hits", "Searcher", "searcher"),
    "similarity": ("Dense",),
    "upkeep": ("extend", "merge", "remove"),
    "vectors": ("Vectors",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for, so that `import unhub` and `unhub --help` stay light."""
    if name == "__version__":
        value: object = _version()
    elif name in _HOME:
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(__name__)
    except PackageNotFoundError:
        return "unknown"  # run from a checkout that is not installed
