"""`unhub extend`, `unhub merge` and `unhub remove`: a saved correction follows its items and its bank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from unhub.cli.display import progress
from unhub.cli.errors import argument
from unhub.cli.folding import save
from unhub.cli.inputs import address_in, check_outputs, read_followed, read_given, read_optional, read_or_open
from unhub.cli.options import (
    VECTORS,
    Device,
    ItemIds,
    Json,
    On,
    Overwrite,
    Precision,
    Quiet,
    Saved,
    Threads,
    vectors,
    whole_number,
)

if TYPE_CHECKING:
    from unhub.correction import Correction
    from unhub.data.vectors import Rows, Vectors
    from unhub.stores.store import Store

ChangedOutput: TypeAlias = Annotated[
    Path, typer.Option("--output", "-o", help="File to write; it may be the file of --correction.")
]
FitBankItems: TypeAlias = Annotated[
    Path | None, vectors("The bank items of the fit, if the method uses them.", "--bank-items")
]
Warm: TypeAlias = Annotated[int, whole_number(0, help="Number of iterations over all the items, for 'sn' and 'dbsn'.")]


def extend(
    correction: Saved,
    new_items: Annotated[Path, vectors(f"The items to add: {VECTORS}, of which those are added that are new.")],
    bank: Annotated[Path, vectors("The bank of the fit.")],
    output: ChangedOutput,
    new_item_ids: Annotated[
        Path | None,
        typer.Option(help="Ids of the new items: one per line, or a .npy file (default: the next free numbers)."),
    ] = None,
    bank_items: FitBankItems = None,
    items: Annotated[Path | None, vectors("The items of the fit, for --warm.")] = None,
    item_ids: ItemIds = None,
    warm: Warm = 0,
    threads: Threads = None,
    device: Device = None,
    precision: Precision = None,
    on: On = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Add items to a saved correction, at the cost of only the new items."""
    from unhub import upkeep

    fitted = _opened(correction, output, overwrite, new_items, new_item_ids, bank, bank_items, items, item_ids)
    with progress("extend", quiet) as advance:
        changed = upkeep.extend(
            fitted,
            _new_items(new_items, new_item_ids, fitted),
            read_given(bank, "--bank"),
            bank_items=read_optional(bank_items, "--bank-items"),
            items=None if items is None else read_followed(items, item_ids, fitted),
            warm=warm,
            threads=threads,
            device=device,
            precision=precision,
            on=on,
            progress=advance,
        )
    save(changed, output, quiet, as_json)


def _new_items(path: Path, ids: Path | None, fitted: Correction) -> Vectors | Rows | Store:
    """Read new items, or open the store of which the library takes those that are new."""
    if ids is None and address_in(path) is not None:
        return read_or_open(path, "--new-items")
    return read_followed(path, ids, fitted, "--new-items", "--new-item-ids")


def merge(
    correction: Saved,
    items: Annotated[Path, vectors("The items of the fit.")],
    more_bank: Annotated[Path, vectors("Past queries to add to the bank.")],
    output: ChangedOutput,
    item_ids: ItemIds = None,
    bank_items: FitBankItems = None,
    threads: Threads = None,
    device: Device = None,
    precision: Precision = None,
    on: On = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Add past queries to the bank of a saved correction."""
    from unhub import upkeep

    fitted = _opened(correction, output, overwrite, items, item_ids, more_bank, bank_items)
    with progress("merge", quiet) as advance:
        changed = upkeep.merge(
            fitted,
            read_followed(items, item_ids, fitted),
            read_given(more_bank, "--more-bank"),
            bank_items=read_optional(bank_items, "--bank-items"),
            threads=threads,
            device=device,
            precision=precision,
            on=on,
            progress=advance,
        )
    save(changed, output, quiet, as_json)


def remove(
    correction: Saved,
    ids: Annotated[Path, typer.Option(help="Ids of the items to remove: one per line, or a .npy file.")],
    output: ChangedOutput,
    items: Annotated[Path | None, vectors("The items of the fit, for --warm and some settings of 'dis'.")] = None,
    item_ids: ItemIds = None,
    bank: Annotated[Path | None, vectors("The bank of the fit, for --warm and some settings of 'dis'.")] = None,
    bank_items: FitBankItems = None,
    warm: Warm = 0,
    threads: Threads = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Remove items from a saved correction."""
    from unhub import files, upkeep

    fitted = _opened(correction, output, overwrite, ids, items, item_ids, bank, bank_items)
    with argument("--ids"):
        gone = files.read_ids(ids, text=fitted.ids.dtype.kind == "U")
    with progress("remove", quiet) as advance:
        changed = upkeep.remove(
            fitted,
            gone,
            items=None if items is None else read_followed(items, item_ids, fitted),
            bank=read_optional(bank, "--bank"),
            bank_items=read_optional(bank_items, "--bank-items"),
            warm=warm,
            threads=threads,
            progress=advance,
        )
    save(changed, output, quiet, as_json)


def _opened(correction: Path, output: Path, overwrite: bool, *inputs: Path | None) -> Correction:
    """Load the correction after checking that the result can be written, possibly in its place."""
    from unhub import files

    check_outputs([("--output", output)], overwrite, *inputs)
    with argument("--correction"):
        return files.load(correction, "correction")
