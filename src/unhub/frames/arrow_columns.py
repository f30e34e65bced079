"""Columns of Arrow as arrays: lists of numbers as rows, integers, texts and UUIDs as ids, numbers as weights.

Arrow itself is imported by whoever has such a column: nothing here needs it before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from unhub.frames.frame_columns import NamedColumns, WrongColumn
from unhub.frames.uuids import UUID_BYTES, as_uuid_texts


def is_numeric_lists(kind: Any) -> bool:
    """Return whether a type is that of lists of numbers."""
    import pyarrow.types as types

    kind = _stored(kind)
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return False
    return bool(types.is_floating(kind.value_type) or types.is_integer(kind.value_type))


def is_float_lists(kind: Any) -> bool:
    """Return whether a type is that of lists of floating numbers, as embeddings are."""
    import pyarrow.types as types

    return is_numeric_lists(kind) and bool(types.is_floating(_stored(kind).value_type))


def may_be_ids(kind: Any) -> bool:
    """Return whether a type is one that ids may have, and no lists."""
    import pyarrow.types as types

    return not types.is_nested(kind)


def columns_like_ids(schema: Any, read: Callable[[str], Any]) -> list[str]:
    """Return the columns of texts or integers that differ in each row, as ids do; none if one is named like ids.

    read: returns a column by its name.
    """
    import pyarrow.compute as compute
    import pyarrow.types as types

    if NamedColumns().id_of(schema.names, lambda one: may_be_ids(schema.field(one).type)) is not None:
        return []
    found = []
    for field in schema:
        kind = field.type
        once = schema.names.count(field.name) == 1
        if once and (types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind)):
            column = read(field.name)
            if not column.null_count and compute.count_distinct(column).as_py() == len(column):
                found.append(field.name)
    return found


def check_lists(kind: Any, label: str) -> Any:
    """Return the type of the lists of a column; raise unless they hold numbers. `label` names the column in errors."""
    if not is_numeric_lists(kind):
        raise WrongColumn(f"{label} holds {kind}; lists of numbers are required")
    return _stored(kind)


def _stored(kind: Any) -> Any:
    """Return the type that an extension type is stored as; a tensor of more than one axis is left, and is no list."""
    import pyarrow

    many = len(getattr(kind, "shape", (0,))) != 1
    return kind.storage_type if isinstance(kind, pyarrow.BaseExtensionType) and not many else kind


def check_full(column: Any, label: str, before: int = 0) -> None:
    """Raise if a value of a column is empty; `before` rows are before it."""
    if column.null_count:
        empty = before + int(np.argmax(column.is_null().to_numpy()))
        raise WrongColumn(f"row {empty} of {label} is empty")


def parts_of(column: Any, label: str, before: int = 0) -> list[NDArray[np.generic]]:
    """Return a column of lists of one length as matrices, one for each chunk that is not empty.

    before: how many rows are before the column, for errors.
    """
    check_lists(column.type, label)
    check_full(column, label, before)
    chunks = [_plain(chunk) for chunk in column.chunks if len(chunk)]
    if not chunks:
        return []
    lengths = np.concatenate([_lengths(chunk) for chunk in chunks])
    if (lengths != lengths[0]).any():
        row = int(np.argmax(lengths != lengths[0]))
        raise WrongColumn(
            f"row {before + row} of {label} has {lengths[row]} numbers, row {before} has {lengths[0]}; "
            "embed all with one model"
        )
    parts: list[NDArray[np.generic]] = []
    for chunk in chunks:
        values = chunk.flatten()
        if values.null_count:
            row = before + sum(map(len, parts)) + int(np.argmax(values.is_null())) // int(lengths[0])
            raise WrongColumn(f"row {row} of {label} has an empty place in it")
        parts.append(values.to_numpy(zero_copy_only=False).reshape(len(chunk), lengths[0]))
    return parts


def _plain(chunk: Any) -> Any:
    """Return a chunk without the extension that its type may have."""
    return getattr(chunk, "storage", chunk)


def _lengths(chunk: Any) -> NDArray[np.int64]:
    import pyarrow

    if pyarrow.types.is_fixed_size_list(chunk.type):
        return np.full(len(chunk), chunk.type.list_size)
    return cast("NDArray[np.int64]", chunk.value_lengths().to_numpy())


def names_of(column: Any, label: str) -> NDArray[np.generic]:
    """Return a column as an array of ids, unchecked but for empty ones; UUIDs as text, categories as what they name."""
    import pyarrow

    check_full(column, label)
    kind = column.type
    try:
        if pyarrow.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        if is_uuids(kind):
            return as_uuid_texts(b"".join(_packed(_plain(chunk)) for chunk in column.chunks))
        return cast("NDArray[np.generic]", column.to_numpy())
    except pyarrow.ArrowException as error:
        raise WrongColumn(f"{label} holds {kind}, which cannot be read as ids ({error})") from None


def weights_of(column: Any, label: str) -> NDArray[np.float64]:
    """Return a column of numbers as an array of weights, unchecked but for empty ones."""
    import pyarrow.types as types

    if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type)):
        raise WrongColumn(f"{label} holds {column.type}; numbers are required")
    check_full(column, label)
    return np.asarray(column.to_numpy(), np.float64)


def is_uuids(kind: Any) -> bool:
    """Return whether a type is that of UUIDs, as such or as 16 bytes."""
    import pyarrow.types as types

    kind = _stored(kind)
    return bool(types.is_fixed_size_binary(kind)) and kind.byte_width == UUID_BYTES


def _packed(chunk: Any) -> bytes:
    """Return the bytes of a column of UUIDs, which may be a part of another column."""
    start = chunk.offset * UUID_BYTES
    return bytes(memoryview(chunk.buffers()[1])[start : start + len(chunk) * UUID_BYTES])
