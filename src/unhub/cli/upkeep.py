"""`unhub extend`, `remove`, `replace` and `merge`: a saved correction follows its items and its bank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast

import typer

from unhub.cli.display import echo_json, progress
from unhub.cli.errors import argument
from unhub.cli.folding import save, tell
from unhub.cli.inputs import (
    address_in,
    check_outputs,
    read_bank,
    read_banks_again,
    read_followed,
    read_optional,
    read_or_open,
    takes_versions,
)
from unhub.cli.options import (
    VECTORS,
    BankWeights,
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
from unhub.errors import ArgumentError
from unhub.evaluation.tables import counted

if TYPE_CHECKING:
    from unhub.correction import Correction
    from unhub.data.vectors import Rows, Vectors
    from unhub.stores.store import Store

ChangedOutput: TypeAlias = Annotated[
    Path, typer.Option("--output", "-o", help="File to write, also that of --correction, or a folder of versions.")
]
FitBankItems: TypeAlias = Annotated[
    Path | None, vectors("The bank items of the fit, if the method uses them.", "--bank-items")
]
FitBank: TypeAlias = Annotated[
    list[Path],
    vectors("The bank of the fit and what was merged, in any order; a bank folder; repeatable.", "--bank"),
]
Warm: TypeAlias = Annotated[int, whole_number(0, help="Number of iterations over all the items, for 'sn' and 'dbsn'.")]


def extend(
    correction: Saved,
    bank: FitBank,
    output: ChangedOutput,
    new_items: Annotated[
        Path | None, vectors(f"The items to add: {VECTORS}, of which those are added that are new.")
    ] = None,
    new_item_ids: Annotated[
        Path | None,
        typer.Option(help="Ids of the new items: one per line, or a .npy file (default: the next free numbers)."),
    ] = None,
    new_ids: Annotated[
        Path | None, typer.Option(help="Ids of rows of --items to add, one per line, in place of --new-items.")
    ] = None,
    bank_weights: BankWeights = None,
    bank_items: FitBankItems = None,
    items: Annotated[Path | None, vectors("The items, for --new-ids and --warm; others may be among them.")] = None,
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

    if (new_items is None) == (new_ids is None):
        raise ValueError("--new-items or --new-ids must say which items to add; give one of them")
    if new_ids is not None and items is None:
        raise ValueError("--new-ids names rows of --items; give --items too")
    fitted = _opened(
        correction,
        output,
        overwrite,
        new_items,
        new_item_ids,
        new_ids,
        *bank,
        bank_weights,
        bank_items,
        items,
        item_ids,
    )
    held = None if items is None else read_followed(items, item_ids, fitted)
    named = nullcontext() if new_ids is None else _naming_new_ids()
    with progress("extend", quiet) as advance, named:
        changed = upkeep.extend(
            fitted,
            _new_items(cast("Path", new_items), new_item_ids, fitted)
            if new_ids is None
            else _rows_of(cast("Vectors", held), new_ids, "--new-ids", fitted),
            read_banks_again(bank, bank_weights, fitted),
            bank_items=read_optional(bank_items, "--bank-items"),
            items=held if warm else None,
            warm=warm,
            threads=threads,
            device=device,
            precision=precision,
            on=on,
            progress=advance,
        )
    added = len(changed.ids) - len(fitted.ids)
    why = f"Extended by {counted(added, 'item', 'items')}."
    _save_change(changed, output, quiet, as_json, why, None if added else correction)


@contextmanager
def _naming_new_ids() -> Iterator[None]:
    """Name --new-ids in errors about the new items, which it chose."""
    try:
        yield
    except ArgumentError as error:
        raise (error.of("--new-ids") if error.name == "new_items" else error) from None


def _new_items(path: Path, ids: Path | None, fitted: Correction) -> Vectors | Rows | Store:
    """Read new items, or open the store of which the library takes those that are new."""
    if ids is None and address_in(path) is not None:
        return read_or_open(path, "--new-items")
    return read_followed(path, ids, fitted, "--new-items", "--new-item-ids")


def _rows_of(held: Vectors | Rows, ids: Path, option: str, fitted: Correction) -> Vectors:
    """Return the rows that a file of ids names; rows without ids are numbered."""
    from unhub import files
    from unhub.data.vectors import as_vectors

    with argument(option, "ids"):
        return as_vectors(held, "items").among(files.read_ids(ids, text=fitted.ids.dtype.kind == "U"))


def replace(
    correction: Saved,
    items: Annotated[Path, vectors("The items as they are now, or some of them; those that changed are replaced.")],
    bank: FitBank,
    output: ChangedOutput,
    item_ids: ItemIds = None,
    ids: Annotated[
        Path | None, typer.Option(help="Ids of the items to look at, one per line (default: all of --items).")
    ] = None,
    bank_weights: BankWeights = None,
    bank_items: FitBankItems = None,
    warm: Warm = 0,
    threads: Threads = None,
    device: Device = None,
    precision: Precision = None,
    on: On = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Follow items whose vectors changed, for example because they were embedded again."""
    from unhub import upkeep
    from unhub.data.vectors import as_vectors

    fitted = _opened(correction, output, overwrite, items, item_ids, ids, *bank, bank_weights, bank_items)
    store = item_ids is None and ids is None and address_in(items) is not None
    held = read_or_open(items, "--items") if store else as_vectors(read_followed(items, item_ids, fitted), "items")
    changed = held if ids is None else _rows_of(cast("Vectors", held), ids, "--ids", fitted)
    with progress("replace", quiet) as advance:
        after = upkeep.replace(
            fitted,
            changed,
            read_banks_again(bank, bank_weights, fitted),
            bank_items=read_optional(bank_items, "--bank-items"),
            items=None if ids is None else held,
            warm=warm,
            threads=threads,
            device=device,
            precision=precision,
            on=on,
            progress=advance,
        )
    replaced = int((after.item_hashes != fitted.item_hashes).sum())
    why = f"Replaced {counted(replaced, 'item', 'items')}."
    _save_change(after, output, quiet, as_json, why, None if replaced else correction)


def merge(
    correction: Saved,
    items: Annotated[Path, vectors("The items of the fit.")],
    more_bank: Annotated[Path, vectors("Past queries to add to the bank.")],
    output: ChangedOutput,
    bank_weights: BankWeights = None,
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

    fitted = _opened(correction, output, overwrite, items, item_ids, more_bank, bank_weights, bank_items)
    more = read_bank(more_bank, bank_weights, "--more-bank")
    with progress("merge", quiet) as advance:
        changed = upkeep.merge(
            fitted,
            read_followed(items, item_ids, fitted),
            more,
            bank_items=read_optional(bank_items, "--bank-items"),
            threads=threads,
            device=device,
            precision=precision,
            on=on,
            progress=advance,
        )
    save(changed, output, quiet, as_json, f"Merged {counted(len(more), 'query', 'queries')}.")


def remove(
    correction: Saved,
    ids: Annotated[Path, typer.Option(help="Ids of the items to remove: one per line, or a .npy file.")],
    output: ChangedOutput,
    items: Annotated[Path | None, vectors("The items of the fit, for --warm and some settings of 'dis'.")] = None,
    item_ids: ItemIds = None,
    bank: Annotated[
        list[Path] | None, vectors("The bank of the fit, for --warm and some settings of 'dis'; repeatable.")
    ] = None,
    bank_weights: BankWeights = None,
    bank_items: FitBankItems = None,
    warm: Warm = 0,
    threads: Threads = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Remove items from a saved correction."""
    from unhub import files, upkeep

    if bank_weights is not None and not bank:
        raise ValueError("--bank-weights has no bank to weigh; give --bank too")
    fitted = _opened(correction, output, overwrite, ids, items, item_ids, *(bank or ()), bank_weights, bank_items)
    with argument("--ids"):
        gone = files.read_ids(ids, text=fitted.ids.dtype.kind == "U")
    with progress("remove", quiet) as advance:
        changed = upkeep.remove(
            fitted,
            gone,
            items=None if items is None else read_followed(items, item_ids, fitted),
            bank=read_banks_again(bank, bank_weights, fitted) if bank else None,
            bank_items=read_optional(bank_items, "--bank-items"),
            warm=warm,
            threads=threads,
            progress=advance,
        )
    removed = counted(len(fitted.ids) - len(changed.ids), "item", "items")
    save(changed, output, quiet, as_json, f"Removed {removed}.")


def _opened(correction: Path, output: Path, overwrite: bool, *inputs: Path | None) -> Correction:
    """Load the correction after checking that the result can be written, possibly in its place."""
    from unhub import files

    check_outputs([("--output", output)], overwrite, *inputs, versions=True)
    with argument("--correction"):
        return files.load(correction, "correction")


def _save_change(
    changed: Correction, output: Path, quiet: bool, as_json: bool, why: str, unchanged: Path | None
) -> None:
    """Save a changed correction. unchanged: where the correction is, if it stayed as it is: that is no new version."""
    from unhub import files

    if unchanged is None or not takes_versions(output):
        save(changed, output, quiet, as_json, why)
    elif as_json:
        echo_json({"path": None, **files.read_any_manifest(unchanged)})
    elif not quiet:
        tell(f"{why} Nothing was written to {output}, and its active version stays.")
