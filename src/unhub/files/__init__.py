"""Everything on disk: vectors in the formats people have; corrections and models whole, checked, never pickled."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it

if TYPE_CHECKING:
    from unhub.atomic import check_target, replacing
    from unhub.files.attributes import Attributes, read_attributes
    from unhub.files.container import check_replaceable, is_replaceable
    from unhub.files.corrections import save_correction
    from unhub.files.exports import bias_writer, export
    from unhub.files.logs import read_log
    from unhub.files.matrices import read_matrix
    from unhub.files.models import save_model
    from unhub.files.readers import (
        READERS,
        name_rows,
        read_as_held,
        read_ids,
        read_rows,
        read_vectors,
        read_weights,
    )
    from unhub.files.relevance_files import is_log, read_hits, read_relevance, read_run
    from unhub.files.saved import (
        is_model,
        load,
        load_layout,
        read_any_manifest,
        read_manifest,
        read_model_manifest,
        save,
    )
    from unhub.files.saved_draws import overwrite_draws, read_draws, write_draws
    from unhub.files.sets import NamedSets, read_sets
    from unhub.files.texts import Texts, find_pictures, read_texts
    from unhub.files.writers import vector_writer

__all__ = [
    "READERS",
    "Attributes",
    "NamedSets",
    "Texts",
    "bias_writer",
    "check_replaceable",
    "check_target",
    "export",
    "find_pictures",
    "is_log",
    "is_model",
    "is_replaceable",
    "load",
    "load_layout",
    "name_rows",
    "overwrite_draws",
    "read_any_manifest",
    "read_as_held",
    "read_attributes",
    "read_draws",
    "read_hits",
    "read_ids",
    "read_log",
    "read_manifest",
    "read_matrix",
    "read_model_manifest",
    "read_relevance",
    "read_rows",
    "read_run",
    "read_sets",
    "read_texts",
    "read_vectors",
    "read_weights",
    "replacing",
    "save",
    "save_correction",
    "save_model",
    "vector_writer",
    "write_draws",
]

_HOMES = {
    "unhub.atomic": ("check_target", "replacing"),
    "unhub.files.attributes": ("Attributes", "read_attributes"),
    "unhub.files.container": ("check_replaceable", "is_replaceable"),
    "unhub.files.corrections": ("save_correction",),
    "unhub.files.saved_draws": ("overwrite_draws", "read_draws", "write_draws"),
    "unhub.files.exports": ("bias_writer", "export"),
    "unhub.files.logs": ("read_log",),
    "unhub.files.matrices": ("read_matrix",),
    "unhub.files.models": ("save_model",),
    "unhub.files.readers": (
        "READERS",
        "name_rows",
        "read_as_held",
        "read_ids",
        "read_rows",
        "read_vectors",
        "read_weights",
    ),
    "unhub.files.relevance_files": ("is_log", "read_hits", "read_relevance", "read_run"),
    "unhub.files.saved": (
        "is_model",
        "load",
        "load_layout",
        "read_any_manifest",
        "read_manifest",
        "read_model_manifest",
        "save",
    ),
    "unhub.files.sets": ("NamedSets", "read_sets"),
    "unhub.files.texts": ("Texts", "find_pictures", "read_texts"),
    "unhub.files.writers": ("vector_writer",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a name when it is first asked for: a command reads few of the formats there are."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
