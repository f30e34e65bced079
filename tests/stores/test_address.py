"""Addresses are read as they are meant, and never show a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

import unhub
from tests.command import fail
from unhub.stores.address import parse_address
from unhub.stores.engines import is_store

pytestmark = pytest.mark.once

SECRETS = (
    "postgresql://me:S3CRET@host/db#photos.embedding",
    "postgresql://me@host/db?password=S3CRET#photos",
    "milvus://S3CRET@host:19530/photos",
    "milvus://user:S3CRET@host/photos",
    "qdrant://host:6333/photos?vector=clip&api_key=S3CRET",
    "chroma://host/photos#x?token=S3CRET",
    "milvus:https://host/photos?token=S3CRET",
)


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_not_shown(text: str) -> None:
    address = parse_address(text)
    assert "S3CRET" not in str(address) and "S3CRET" not in repr(address) and "***" in str(address)


@pytest.mark.parametrize(
    "text", ["postgresql://u:S3C/RET@h/db", "postgresql://u:S3C#RET@h/db", "postgresql://u:S3[@h/db"]
)
def test_a_password_that_breaks_the_address_is_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match="no address that can be read") as caught:
        unhub.store(text)
    assert "S3" not in str(caught.value)


def test_the_value_of_an_unknown_option_is_not_shown() -> None:
    with pytest.raises(ValueError, match="unknown option 'apikey'") as caught:
        unhub.store("qdrant://host:6333/photos?apikey=S3CRET")
    assert "S3CRET" not in str(caught.value)


def test_the_parts_of_addresses() -> None:
    here = parse_address("lancedb:some folder/db#photos.vector?id=file&metric=dot")
    assert (here.place, here.collection, here.column) == ("some folder/db", "photos", "vector")
    assert here.options == {"id": "file", "metric": "dot"} and not here.network
    there = parse_address("postgresql://me@[::1]:5432/db#public.photos.embedding")
    assert (there.collection, there.column, there.network) == ("public.photos", "embedding", True)


@pytest.mark.parametrize("text", ["gallery.npy", "C:\\gallery.npy", "folder/x:y.npy", "unknown:folder", "qdrant:"])
def test_what_is_no_address(text: str) -> None:
    assert not is_store(text)


def test_an_address_with_a_typo_does_not_show_its_password(tmp_path: Path) -> None:
    told = fail(tmp_path, "fit", "--items", "postgre://u:S3CRET@h/db#photos", "--bank", "b.npy", "-o", "c.unhub")
    assert "S3CRET" not in told and "did you mean 'postgres'" in told
