"""`unhub extend`, `unhub merge` and `unhub remove`: a saved correction follows its items and its bank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import progress
from unhub.cli.errors import argument
from unhub.cli.folding import save
from unhub.cli.inputs import read_followed, read_given, read_optional

if TYPE_CHECKING:
    from unhub.correction import Correction

Saved = Annotated[Path, typer.Option("--correction", help="The file that `unhub fit` wrote.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write; it may be that of --correction.")]
ItemIds = Annotated[Path | None, typer.Option(help="Ids of the items: one per line, or a .npy file.")]
BankItems = Annotated[Path | None, typer.Option(help="The bank items of the fit, if the method uses them.")]
Warm = Annotated[int, typer.Option(min=0, help="Iterations over everything, for sn and dbsn.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads to compute on; all cores by default.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")]


def extend(
    correction: Saved,
    new_items: Annotated[Path, typer.Option(help="The items to add: vectors, in any format of `unhub fit`.")],
    bank: Annotated[Path, typer.Option(help="The bank of the fit.")],
    output: Output,
    new_item_ids: Annotated[Path | None, typer.Option(help="Ids of the new items; else they are numbered on.")] = None,
    bank_items: BankItems = None,
    items: Annotated[Path | None, typer.Option(help="The items of the fit, which --warm needs.")] = None,
    item_ids: ItemIds = None,
    warm: Warm = 0,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Add items to a saved correction, at the cost of those items alone."""
    from unhub import upkeep

    fitted = _opened(correction, output, new_items, new_item_ids, bank, bank_items, items, item_ids)
    with progress("extend", quiet) as advance:
        changed = upkeep.extend(
            fitted,
            read_followed(new_items, new_item_ids, fitted, "--new-items", "--new-item-ids"),
            read_given(bank, "--bank"),
            bank_items=read_optional(bank_items, "--bank-items"),
            items=None if items is None else read_followed(items, item_ids, fitted),
            warm=warm,
            threads=threads,
            progress=advance,
        )
    save(changed, output, quiet, as_json)


def merge(
    correction: Saved,
    items: Annotated[Path, typer.Option(help="The items of the correction.")],
    more_bank: Annotated[Path, typer.Option(help="The past queries to add to its bank.")],
    output: Output,
    item_ids: ItemIds = None,
    bank_items: BankItems = None,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Add past queries to the bank of a saved correction."""
    from unhub import upkeep

    fitted = _opened(correction, output, items, item_ids, more_bank, bank_items)
    with progress("merge", quiet) as advance:
        changed = upkeep.merge(
            fitted,
            read_followed(items, item_ids, fitted),
            read_given(more_bank, "--more-bank"),
            bank_items=read_optional(bank_items, "--bank-items"),
            threads=threads,
            progress=advance,
        )
    save(changed, output, quiet, as_json)


def remove(
    correction: Saved,
    ids: Annotated[Path, typer.Option(help="Ids of the items to drop: one per line, or a .npy file.")],
    output: Output,
    items: Annotated[Path | None, typer.Option(help="The items of the fit, which --warm and some dis need.")] = None,
    item_ids: ItemIds = None,
    bank: Annotated[Path | None, typer.Option(help="The bank of the fit, which --warm and some dis need.")] = None,
    bank_items: BankItems = None,
    warm: Warm = 0,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Drop items from a saved correction."""
    from unhub import files, upkeep

    fitted = _opened(correction, output, ids, items, item_ids, bank, bank_items)
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


def _opened(correction: Path, output: Path, *inputs: Path | None) -> Correction:
    """Load the correction, once it is sure that the result can be written and lands on no vectors."""
    from unhub import files

    with argument("--output"):
        files.check_target(output, *inputs, kind=files.CORRECTION_FILE)
    with argument("--correction"):
        return files.load(correction, "correction")
