"""Wrappers for other libraries, each in one file that imports the library; a name is imported when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unhub.integrations.langchain import CorrectedRetriever
    from unhub.integrations.scikit_learn import HubnessCorrector
    from unhub.integrations.sentence_transformers import semantic_search

__all__ = ["CorrectedRetriever", "HubnessCorrector", "semantic_search"]

_HOMES = {
    "CorrectedRetriever": "langchain",
    "HubnessCorrector": "scikit_learn",
    "semantic_search": "sentence_transformers",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
