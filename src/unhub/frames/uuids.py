"""UUIDs as ids: their canonical text, `123e4567-e89b-12d3-a456-426614174000`, whatever they were held as."""

from __future__ import annotations

from typing import cast
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

UUID_BYTES = 16
# Where the 32 digits stand in the 36 letters of the text; hyphens fill the rest.
DIGITS = np.delete(np.arange(36), [8, 13, 18, 23])


def as_uuid_texts(packed: bytes | memoryview) -> NDArray[np.str_]:
    """Return the texts of UUIDs that stand behind each other, 16 bytes each."""
    digits = np.frombuffer(packed.hex().encode(), np.uint8).reshape(-1, 2 * UUID_BYTES)
    letters = np.full((len(digits), 36), ord("-"), np.uint32)
    letters[:, DIGITS] = digits
    return letters.view("U36").ravel()


def without_uuids(ids: object) -> object:
    """Return a UUID, or a list or array of nothing else, as text; any other ids as they are.

    16 bytes are a UUID too, as a file of them comes back from pandas.
    """
    if isinstance(ids, UUID):
        return str(ids)
    held = ids if isinstance(ids, list | tuple) else None
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "O":
        held = ids.ravel().tolist()
    if not held or not _is_uuid(held[0]) or not all(map(_is_uuid, held)):
        return ids
    texts = as_uuid_texts(b"".join(one.bytes if isinstance(one, UUID) else cast("bytes", one) for one in held))
    return texts.reshape(ids.shape) if isinstance(ids, np.ndarray) else texts


def _is_uuid(one: object) -> bool:
    return isinstance(one, UUID) or (type(one) is bytes and len(one) == UUID_BYTES)
