"""Read the files that options name, and check those to write; each error names its option."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unhub.cli.errors import argument
from unhub.errors import ArgumentError, unknown

if TYPE_CHECKING:
    from unhub.arrays import Ids
    from unhub.correction import Correction
    from unhub.data.vectors import Rows, Vectors
    from unhub.evaluation.pictures import Picture
    from unhub.stores.store import Store


class GivenPath(type(Path())):  # type: ignore[misc]  # the class of paths depends on the system
    """A path that keeps the text it was given as: it may be the address of a store or of remote files."""

    def __new__(cls, text: str) -> GivenPath:
        made: GivenPath = super().__new__(cls, text)
        made.text = text
        return made

    def __init__(self, text: str) -> None:
        if sys.version_info >= (3, 12):
            super().__init__(text)
        self.text = text


def check_outputs(
    outputs: Iterable[tuple[str, Path | None]], overwrite: bool, *inputs: Path | None, versions: bool = False
) -> None:
    """Check the files to write before any work: none is an input, and no two are the same.

    An existing file must be empty or saved by unhub, unless `overwrite` is given. versions: whether an output may be a
    folder of versions, which takes one more.
    """
    from unhub import files

    taken: dict[Path, str] = {}
    for option, path in outputs:
        if path is None:
            continue
        with argument(option):
            if versions and takes_versions(path):
                continue
            target = files.check_target(path)
            for given in inputs:
                _check_apart(path, target, given)
            if not overwrite:
                files.check_replaceable(path, remedy="give --overwrite to replace it, or name another file")
            first = taken.setdefault(target, option)
            if first != option:
                raise ValueError(f"{path} is the file of {first} too; name another file")


def takes_versions(path: Path) -> bool:
    """Return whether an output is a folder of versions, which takes one more correction; raise if others wrote them."""
    if not path.is_dir():
        return False
    from unhub.files.version_folders import check_versions, is_version_folder, version_place

    if not is_version_folder(path):
        return False
    check_versions(version_place(path))
    return True


def _check_apart(path: Path, target: Path, given: Path | None) -> None:
    """Refuse to write onto an input; in an input's folder only a file that unhub saved may be replaced."""
    from unhub import files

    if given is None or not target.exists():
        return
    from unhub.files.clip_retrieval import EMBEDDINGS
    from unhub.files.named_arrays import split_name
    from unhub.files.shards import found_by

    if any(found.samefile(target) for found in found_by(given)):
        raise ValueError(f"{path} is an input of this command; name another file")
    given = Path(split_name(str(given))[0])
    folder = given.resolve()
    if folder.name in EMBEDDINGS:  # clip-retrieval keeps the ids beside this folder
        folder = folder.parent
    if given.is_dir() and folder in target.parents and not files.is_replaceable(target):
        raise ValueError(f"{path} is in {given}, an input of this command; name another file")


def write_picture(picture: Picture, path: Path) -> None:
    """Draw a picture into a file that was checked before, in the form that its name asks for."""
    from unhub import files
    from unhub.evaluation.pictures import check_form

    with files.replacing(path) as temporary:
        temporary.write_bytes(picture.to_bytes(check_form(path)))


def check_methods(specs: Iterable[str], option: str) -> None:
    """Check methods and their parameters before anything is read."""
    from unhub.methods import parse

    with argument(option, "method"):
        for spec in specs:
            parse(spec)


def address_in(path: Path) -> str | None:
    """Return the address of a store, if an option was given one; None if it names files, here or remote."""
    text = path.text if isinstance(path, GivenPath) else ""
    if ":" not in text or path.exists():
        return None
    from unhub.files.named_arrays import split_name
    from unhub.files.remote import PROTOCOLS, is_remote
    from unhub.stores.engines import STORES, is_store

    if is_remote(text) or split_name(text)[1] is not None:
        return None
    if ("://" in text or "#" in text) and not is_store(text):
        # The rest of the text may hold a password.
        raise unknown("address", text.partition(":")[0], (*STORES, *PROTOCOLS), "engines and object stores")
    return text if is_store(text) else None


def place_of(path: Path) -> str:
    """Return where an option says that vectors are; a path would lose a slash of a remote address."""
    return path.text if isinstance(path, GivenPath) else str(path)


def open_given_store(address: str, option: str) -> Store:
    """Open the store of an option or argument."""
    from unhub.stores.engines import store

    with argument(option, "address", "store"):
        return store(address)


def read_or_open(path: Path, option: str) -> Vectors | Store:
    """Read the vectors of an option, or open the store that it names."""
    address = address_in(path)
    return read_given(path, option) if address is None else open_given_store(address, option)


def read_given(path: Path, option: str) -> Vectors:
    """Read the vectors of an option; each row is checked and hashed once, however often they are used."""
    from unhub import files
    from unhub.matching import checked_once

    address = address_in(path)
    with argument(option, "store"):
        held = files.read_vectors(place_of(path)) if address is None else open_given_store(address, option).vectors()
        return checked_once(held, option)


def read_optional(path: Path | None, option: str) -> Vectors | None:
    """Read the vectors of an option that may be left out."""
    return None if path is None else read_given(path, option)


def read_bank(
    path: Path, weights: Path | None, option: str = "--bank", weights_option: str = "--bank-weights"
) -> Vectors:
    """Read a bank, whose weights may be in another file."""
    from unhub import files

    bank = read_given(path, option)
    if weights is None:
        return bank
    if bank.weights is not None:
        raise ValueError(f"{weights_option}: the bank of {option} has weights of its own; leave it out")
    with argument(weights_option, "weights"):
        return bank.weighing(files.read_weights(weights))


def read_banks_again(paths: Sequence[Path], weights: Path | None, fitted: Correction) -> list[Vectors]:
    """Read the banks of a fit and of merges; of a bank folder, every logged query: the bank may be another one now.

    A correction that was saved before hashes of the rows were kept cannot find its own among them: the bank as it is.
    """
    from unhub.files.bank_folders import is_bank_folder, read_every_query

    if weights is not None and len(paths) != 1:
        raise ValueError("--bank-weights goes with one --bank; the correction knows the weights, so leave it out")
    read = []
    for path in paths:
        if fitted.source.bank_rows is not None and is_bank_folder(path):
            with argument("--bank"):
                read.append(read_every_query(path))
        else:
            read.append(read_bank(path, weights))
    return read


def read_optional_bank(path: Path | None, weights: Path | None) -> Vectors | None:
    """Read a bank that may be left out, with its weights."""
    if path is None and weights is not None:
        raise ValueError("--bank-weights has no bank to weigh; give --bank too")
    return None if path is None else read_bank(path, weights)


def read_named(
    path: Path, ids: Path | None, option: str = "--items", ids_option: str = "--item-ids", text: bool = False
) -> Vectors:
    """Read vectors, whose ids may be in another file; with `text`, the ids are strings whatever they look like."""
    from unhub import files
    from unhub.matching import checked_once

    if ids is None:
        return read_given(path, option)
    if (address := address_in(path)) is not None:
        raise ValueError(f"{ids_option} goes with a file; the ids of {address.partition(':')[0]} are in the store")
    with argument(ids_option):
        names = files.read_ids(ids, text=text)
    with argument(option):
        rows = files.read_rows(place_of(path))
    with argument(ids_option):
        return checked_once(files.name_rows(rows, names, str(ids)), option)


def note_numbered(items: Path, ids: Path | None, quiet: bool) -> None:
    """Say on stderr that the rows of a table are numbered although columns of it could be their ids."""
    if quiet or ids is not None or address_in(items) is not None:
        return
    from unhub.cli.display import echo
    from unhub.files.readers import columns_like_ids

    if found := columns_like_ids(place_of(items)):
        named = " and ".join(f"`{one}`" for one in found)
        differ = "differs" if len(found) == 1 else "differ"
        told = f"{items} has no column named like ids, so its rows are numbered, but {named} {differ} in each row"
        echo(f"unhub: note: {told}; if they are the ids, give --id-column {found[0]}", err=True)


def only_fitted(items: Vectors, fitted: Correction, quiet: bool) -> Vectors:
    """Return those items that a correction has, by their ids, and say how many others there are."""
    from unhub.arrays import are_among
    from unhub.cli.display import echo

    if items.ids.dtype.kind != fitted.ids.dtype.kind or items.dimensions != fitted.source.dimensions:
        return items  # which is an error, and said where it is found
    known = are_among(items.ids, fitted.ids)
    if known.all() or not known.any():
        return items
    if not quiet:
        others = f"{len(known) - int(known.sum()):,} of {len(known):,} items are not in the correction"
        echo(f"unhub: note: {others} and are not searched; if they are new, extend it by them", err=True)
    return items.among(items.ids[known])


def read_followed(
    path: Path, ids: Path | None, fitted: Correction, option: str = "--items", ids_option: str = "--item-ids"
) -> Vectors | Rows:
    """Read items for upkeep, which numbers rows without ids itself."""
    from unhub import files

    if ids is not None:
        return read_named(path, ids, option, ids_option, text=fitted.ids.dtype.kind == "U")
    if address_in(path) is not None:
        return read_given(path, option)
    with argument(option):
        return files.read_as_held(place_of(path))


def read_gallery(
    items: Path | None, item_ids: Path | None, items_count: int | None, fitted: Correction | None = None
) -> Ids | int | None:
    """Return the ids of all items, or their number, for what was returned from them; None if nothing says."""
    from unhub import files
    from unhub.data.ids import as_ids

    if items_count is not None:
        refuse({"--items": items, "--item-ids": item_ids}, "--items-count is given")
        return items_count
    if item_ids is not None:
        with argument("--item-ids"):
            names = files.read_ids(item_ids)
            return as_ids(names, len(names), "item_ids")
    if items is not None:
        return read_given(items, "--items").ids
    return None if fitted is None else fitted.ids


def refuse(options: Mapping[str, object], why: str, where: bool = True) -> None:
    """Refuse options that would have no effect."""
    for name, value in options.items():
        if where and value is not None:
            raise ArgumentError(name, "has no effect", why)
