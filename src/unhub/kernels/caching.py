"""Caching: where numba keeps compiled code: its own choice, else a user's temporary folder, else nowhere."""

from __future__ import annotations

import functools
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba

config: Any = numba.config


def jit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return what numba.njit returns; it caches if it can, else it compiles again in each process."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError as error:  # neither the package's folder nor the user's is writable
            if "cannot cache" not in str(error):
                raise
        folder = private_folder()
        if folder is None:
            return numba.njit(**options)(function)
        before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
        try:
            return numba.njit(cache=True, **options)(function)
        finally:
            config.CACHE_DIR = before

    return decorate


@functools.cache
def private_folder() -> Path | None:
    """Return a folder that only this user can write to, or None: code cached there is run unchecked."""
    if not hasattr(os, "getuid"):
        return None
    user = os.getuid()
    try:
        folder = Path(tempfile.gettempdir(), f"unhub-numba-{user}")
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        own, above = folder.lstat(), folder.parent.stat()
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        return None
    ours = stat.S_ISDIR(own.st_mode) and own.st_uid == user and not own.st_mode & 0o077
    # If others may rename files that are not theirs, they could replace the folder with their own.
    stays = above.st_uid in (0, user) and (bool(above.st_mode & stat.S_ISVTX) or not above.st_mode & 0o022)
    return folder if ours and stays else None
