"""Files are found by their names wherever they lie, and what was written is what is read."""

from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.datasets.official_layouts import touch, write_table
from unhub import datasets
from unhub.datasets.scanned import Scanned

pytestmark = pytest.mark.once

FOLDERS = st.sampled_from(["", "a/", "b/", "a/b/", "b/a/", "a.b/"])
STEMS = st.sampled_from(["x", "y", "x.jpg", "x.1", "-x_1_2", "x y"])
PATHS = st.builds("{}{}{}".format, FOLDERS, STEMS, st.sampled_from([".jpg", ".JPG", ".png", ".txt", ".jpg.1"]))
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@settings(max_examples=60, deadline=None)
@given(st.sets(PATHS, min_size=1, max_size=8))
def test_a_path_finds_its_own_file_and_a_name_the_nearest(paths: set[str]) -> None:
    with TemporaryDirectory() as made:
        touch(Path(made), paths)
        files = Scanned.of(made)
        for path in (one for one in paths if not one.endswith((".txt", ".1"))):
            found = files.media("image", path)
            assert found is not None
            inside = found.relative_to(made).as_posix()
            if "/" in path:
                assert f"/{inside}".endswith(f"/{path}") and inside.count("/") >= path.count("/")
            nearest = min(one.count("/") for one in paths if PurePosixPath(one).name == PurePosixPath(path).name)
            by_name = files.media("image", PurePosixPath(path).name)
            assert by_name is not None and by_name.relative_to(made).as_posix().count("/") == nearest
        assert files.count == len(paths)
        assert files.media("image", "nobody.jpg") is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a.jpg", "b/c.jpg"]), TEXTS), min_size=1, max_size=8))
def test_captions_come_back_as_they_were_written(rows: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as made:
        write_table(Path(made) / "captions.csv", [("file", "text"), *rows], end="\r\n")
        touch(Path(made), ["a.jpg", "b/c.jpg"])
        data = datasets.load("folder", made)
        assert data.queries.texts == tuple((text,) for _, text in rows)
        assert data.relevance is not None
        assert data.relevance.item_ids.tolist() == [file for file, _ in rows]
        assert data.items.missing.tolist() == []
        assert len({*data.queries.ids.tolist()}) == len(rows)
