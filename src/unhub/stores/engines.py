"""Engines: a store from its address. One file per engine, one line in STORES."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import cast

from unhub.errors import ArgumentError, unknown
from unhub.stores.address import Address, is_address, parse_address
from unhub.stores.store import Store

# The module that opens the addresses of a scheme, by its function `open_store`; an engine is imported when asked for.
STORES: Mapping[str, str] = {
    "qdrant": "qdrant",
    "qdrant-edge": "qdrant_edge",
    "lancedb": "lancedb",
    "postgresql": "postgres",
    "postgres": "postgres",
    "milvus": "milvus",
    "chroma": "chroma",
    "faiss": "faiss_file",
    "usearch": "usearch_file",
}


def store(address: str) -> Store:
    """Open a collection of vectors in a database, for example `qdrant://localhost:6333/photos?vector=clip`.

    Others: `qdrant:folder#photos`, `qdrant-edge:folder`, `lancedb:folder#photos.vector`,
    `postgresql://host/database#photos.embedding`, `milvus:file.db#photos`, `chroma:folder#photos`, `faiss:file.index`,
    `usearch:file.usearch`. It can be given wherever items or a bank are taken.
    """
    if not isinstance(address, str):
        raise ArgumentError("address", f"must be a text such as 'lancedb:folder#photos', got {address!r}")
    scheme, colon, _ = address.partition(":")
    if not colon:
        raise ArgumentError("address", f"must begin with an engine and a colon, got {address!r}", _engines())
    if scheme not in STORES:
        raise unknown("address", scheme, STORES, "engines")
    module = importlib.import_module(f"{__package__}.{STORES[scheme]}")
    opener = cast("Callable[[Address], Store]", module.open_store)
    return opener(parse_address(address))


def is_store(text: str) -> bool:
    """Return whether a text is the address of a store, not the name of a file."""
    return is_address(text, STORES)


def _engines() -> str:
    return f"the engines are {', '.join(STORES)}"
