"""Keys of what is forgotten: by them a bank folder knows queries that it must not take again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unhub.data.query_log import QueryLog
from unhub.files.bank_folders import KEY_BYTES, BankManifest
from unhub.files.log_removal import ToForget


@dataclass(frozen=True)
class ForgottenKeys:
    """Keys of ids of queries, of users, and of the ids of queries that are known to be of these users."""

    ids: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    of_users: frozenset[str] = frozenset()

    @staticmethod
    def read(manifest: BankManifest | None) -> ForgottenKeys:
        """Return what a bank folder has forgotten."""
        if manifest is None:
            return ForgottenKeys()
        return ForgottenKeys(
            frozenset(manifest.get("forgotten", ())),
            frozenset(manifest.get("forgotten_users", ())),
            frozenset(manifest.get("forgotten_of_users", ())),
        )

    @property
    def in_manifest(self) -> BankManifest:
        """The entries of a manifest that hold them; none for what is empty."""
        held = {"forgotten": self.ids, "forgotten_users": self.users, "forgotten_of_users": self.of_users}
        return {name: sorted(keys) for name, keys in held.items() if keys}  # type: ignore[return-value]  # a part of it

    def more(self, wanted: ToForget) -> ForgottenKeys:
        """Return them with those of more that is to be forgotten."""
        return ForgottenKeys(
            self.ids | _keys(wanted.query_ids), self.users | _keys(wanted.users), self.of_users | _keys(wanted.of_users)
        )

    def others_in(self, log: QueryLog) -> QueryLog:
        """Return the queries of a log that are not to be forgotten."""
        gone = np.zeros(len(log), bool)
        if log.query_ids is not None:
            names = log.query_ids.tolist()
            gone |= _among(names, self.ids) | (_among(names, self.of_users) & ~log.says_who)
        if log.users is not None:
            gone |= _among(log.users.tolist(), self.users)
        return log.gather(np.flatnonzero(~gone)) if gone.any() else log


def name_key(name: str) -> str:
    """Return the key by which an id or a user is known."""
    return hashlib.blake2b(name.encode(), digest_size=KEY_BYTES).hexdigest()


def key_rows(names: Sequence[object]) -> NDArray[np.uint8]:
    """Return the keys of some names as (n, KEY_BYTES)."""
    known = {one: [*bytes.fromhex(name_key(str(one)))] for one in {*names}}
    return np.array([known[one] for one in names], np.uint8).reshape(len(names), KEY_BYTES)


def _keys(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(name_key, names))


def _among(names: Sequence[object], keys: frozenset[str]) -> NDArray[np.bool_]:
    if not keys:
        return np.zeros(len(names), bool)
    return np.array([name_key(str(one)) in keys for one in names], bool)
