"""Remote files: s3://, gs:// and https:// by fsspec, read in ranges, within a time limit; each error is one line."""

from __future__ import annotations

import errno
import functools
import io
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from unhub.errors import optional

# What fsspec needs for each protocol.
PROTOCOLS: Mapping[str, str] = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "https": "aiohttp",
    "http": "aiohttp",
    "memory": "fsspec",
}
WEB = ("https", "http")
VERSIONS = ("generation", "ETag", "etag", "LastModified", "Last-Modified", "created")  # the surest first
TIME_LIMIT_SECONDS = 60.0  # for one answer, of at most a piece
ATTEMPTS = 3  # at a range of a file that was there
ASKED_AT_ONCE = 16  # files: what each answers is small, and a wait
BUFFER_BYTES = 1 << 20
DENIED, NOT_FOUND = (401, 403), 404  # answers of a server


class RemoteFailure(OSError):
    """A remote file that cannot be reached or read."""


class RemoteDenied(RemoteFailure, PermissionError):
    """A remote file that the store does not give to us."""


def is_remote(text: str) -> bool:
    """Return whether a text is an address of remote files, even if nothing stands behind its protocol."""
    protocol, mark, _ = text.partition("://")
    return bool(mark) and protocol.lower() in PROTOCOLS


def shown(place: str | os.PathLike[str]) -> str:
    """Return a path, or an address without what may be secret in it: a user, a password, a signature."""
    text = os.fspath(place)
    if "://" not in text:
        return text
    protocol, _, rest = _without_query(text).partition("://")
    host, slash, path = rest.partition("/")
    return f"{protocol}://{host.rpartition('@')[2]}{slash}{path}"


def in_order(name: str) -> list[str]:
    """Return what the files of a set are sorted by, here and remote: the names of their folders, then their own."""
    return name.split("/")


def found_folder(folder: object) -> ValueError:
    """Return the error for a folder among what a pattern finds."""
    return ValueError(f"{folder}: is a folder, and a pattern finds files; name those in it, as in {folder}/*.parquet")


@dataclass(frozen=True)
class RemoteFile:
    """A remote file as it was found, by its address, its size and its version, if its store names one.

    It is opened as a Path is, and prints as its address.
    """

    url: str
    size: int
    version: str = ""

    def __getstate__(self) -> dict[str, object]:
        if self.url.startswith("memory://"):
            raise TypeError(f"{self}: is in the memory of this process alone")
        return self.__dict__

    def __str__(self) -> str:
        return shown(self.url)

    @property
    def suffix(self) -> str:
        return suffix_of(self.url)

    def stat(self) -> None:
        """Do nothing: the file was found."""

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """Return a stream that reads ranges as it is read."""
        return io.BufferedReader(_Ranges(self), BUFFER_BYTES)

    def check(self) -> None:
        """Raise if the file is not the one that was found; where its store names no version, by its size alone."""
        _filesystem(self.url.partition("://")[0], os.getpid()).invalidate_cache()  # it may hold the listing
        about = self._answer("info")
        if (about.get("size"), _version(about)) != (self.size, self.version):
            raise RemoteFailure(f"{self}: has changed since it was found; read it again")

    def read(self, start: int, stop: int) -> bytes:
        """Return some bytes of the file."""
        found: bytes = self._answer("cat_file", start=start, end=stop)  # s3fs has them elsewhere
        if len(found) != stop - start:
            raise RemoteFailure(
                f"{self}: sent {len(found)} bytes for {stop - start}; it has changed since it was found"
            )
        return found

    def _answer(self, name: str, **more: Any) -> Any:
        """Ask for something of the file, and again if the answer does not come."""
        for _ in range(ATTEMPTS - 1):
            try:
                return _ask(self.url, name, self.url, **more)
            except (RemoteDenied, FileNotFoundError):
                raise
            except RemoteFailure:
                continue
        return _ask(self.url, name, self.url, **more)


class _Ranges(io.RawIOBase):
    """A remote file as a stream."""

    def __init__(self, file: RemoteFile) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        if origin + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = origin + offset
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        stop = min(self._at + len(buffer), self._file.size)
        if stop <= self._at:
            return 0
        found = self._file.read(self._at, stop)
        buffer[: len(found)] = found
        self._at = stop
        return len(found)


def suffix_of(url: str) -> str:
    """Return the suffix of the file that an address names."""
    return PurePosixPath(_without_query(url)).suffix.lower()


def _without_query(url: str) -> str:
    """Return a web address without what follows its path; in other stores these are letters of a name."""
    if not url.startswith(WEB):
        return url
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def find_remote(
    url: str, suffixes: tuple[str, ...], check_folder: Callable[[str, Collection[str]], None]
) -> list[RemoteFile]:
    """Return the files that an address names, sorted by name: one file, those of a folder, or those a pattern finds.

    Sizes are those of the listing; only where it has none, which is so on the web, each file is asked for its own.
    check_folder: raises if a folder, of which it is told the address and the names in it, is not to be read.
    """
    filesystem = _filesystem(url.partition("://")[0], os.getpid())
    filesystem.invalidate_cache()  # files may have come since it was last looked at
    if has_pattern(url) and (url.startswith(WEB) or not _ask(url, "exists", url)):
        return _files(url, _found_by(url))
    if suffix_of(url) in suffixes:
        about = _ask(url, "info", url)
        if about["type"] != "directory":
            return [_file(url, about)]
    listed = {one["name"]: one for one in _ask(url, "ls", url.rstrip("/") + "/", detail=True)}
    own = {name: _readable(name).rstrip("/").rpartition("/")[2] for name in listed}
    check_folder(shown(url), {*own.values()})
    files = {
        name: about
        for name, about in listed.items()
        if about["type"] == "file" and suffix_of(name) in suffixes and not own[name].startswith(".")
    }
    return _files(url, files)


def has_pattern(text: str) -> bool:
    """Return whether a text is a pattern of names; `?` begins the query of a web address."""
    marks = "*[" if text.startswith(WEB) else "*[?"
    return any(mark in text for mark in marks)


def _found_by(pattern: str) -> dict[str, Mapping[str, Any]]:
    """Return what a pattern finds; as here, names that begin with a dot only if it writes the dot."""
    dotted = [part for part in pattern.split("/") if part.startswith(".")]
    found: dict[str, Mapping[str, Any]] = {}
    for name, about in _ask(pattern, "glob", pattern, detail=True).items():
        parts = [part for part in _readable(name).split("/") if part.startswith(".")]
        if all(any(fnmatchcase(part, one) for one in dotted) for part in parts):
            found[name] = about
    return found


def _readable(name: str) -> str:
    """Return a name as its owner wrote it: on the web, some letters stand for others."""
    return unquote(_without_query(name)) if name.startswith(WEB) else name


def _files(url: str, listed: Mapping[str, Mapping[str, Any]]) -> list[RemoteFile]:
    """Return the files of a listing, sorted by name; those that must be asked, several at a time."""
    filesystem = _filesystem(url.partition("://")[0], os.getpid())
    named = {str(filesystem.unstrip_protocol(name)): about for name, about in listed.items()}
    ordered = sorted(named, key=lambda name: in_order(_readable(name)))
    for one in ordered:
        if named[one]["type"] == "directory":
            raise found_folder(shown(one.rstrip("/")))
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        return list(pool.map(lambda one: _file(one, named[one]), ordered))


def _file(url: str, listed: Mapping[str, Any]) -> RemoteFile:
    about = _ask(url, "info", url) if listed.get("size") is None else listed
    size = about.get("size")
    if size is None:
        raise RemoteFailure(f"{shown(url)}: the server does not say how large the file is; download it")
    if url.startswith(WEB):
        _check_ranges(url)
    return RemoteFile(url, int(size), _version(about))


def _version(about: Mapping[str, Any]) -> str:
    """Return what tells a file from a later one at the same address, or "" if the store names nothing."""
    named = next((about[name] for name in VERSIONS if about.get(name)), "")
    return str(named.timestamp() if isinstance(named, datetime) else named)  # fsspec's memory names either


def _check_ranges(url: str) -> None:
    """Raise if a server sends only whole files, before one comes."""
    filesystem = _filesystem(url.partition("://")[0], os.getpid())
    opened = filesystem.open(url, size=2)

    async def fetch() -> None:
        try:
            await opened.async_fetch_range(1, 2)
        except ValueError:
            raise RemoteFailure(f"{shown(url)}: the server does not send parts of a file; download it") from None

    _within_limit(url, filesystem, fetch)


def _ask(url: str, name: str, *given: Any, **more: Any) -> Any:
    """Call a function of the file system within the time limit."""
    filesystem = _filesystem(url.partition("://")[0], os.getpid())
    if filesystem.async_impl:
        return _within_limit(url, filesystem, getattr(filesystem, f"_{name}"), *given, **more)
    with _reaching(url):
        return getattr(filesystem, name)(*given, **more)


def _within_limit(url: str, filesystem: Any, function: Callable[..., Any], *given: Any, **more: Any) -> Any:
    from fsspec.asyn import sync

    with _reaching(url):
        return sync(filesystem.loop, function, *given, timeout=TIME_LIMIT_SECONDS, **more)


@functools.cache
def _filesystem(protocol: str, process: int) -> Any:
    """Return the file system of a protocol; a forked process needs one of its own."""
    fsspec = optional("fsspec", "remote", f"reading {protocol}://")
    # What a library logs of a failure, it raises too; without a handler Python would print it, traceback and all.
    logging.getLogger(PROTOCOLS[protocol]).addHandler(logging.NullHandler())
    try:
        return fsspec.filesystem(protocol)
    except ImportError:
        package = PROTOCOLS[protocol]
        raise ImportError(f"reading {protocol}:// needs {package}: pip install {package}") from None


@contextmanager
def _reaching(url: str) -> Iterator[None]:
    """Turn what the libraries of object stores raise into one line that names the file."""
    place = shown(url)
    try:
        yield
    except (RemoteFailure, ImportError):
        raise
    except TimeoutError:
        raise RemoteFailure(f"{place}: no answer within {TIME_LIMIT_SECONDS:g} seconds") from None
    except Exception as raised:  # each library has its own kinds
        error = _cause(raised)
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place) from None
        why = _reason(error).replace(url, place)
        if _denied(error):
            package = PROTOCOLS[place.partition("://")[0]]
            remedy = f"give {package} credentials that may read it, as its documentation says"
            raise RemoteDenied(f"{place}: access is denied ({why}); {remedy}") from None
        raise RemoteFailure(f"{place}: cannot be read ({why})") from None


def _cause(error: Exception) -> Exception:
    """Return why a file was not found: whatever a web server answers, fsspec says that it is not there."""
    cause = error.__cause__
    if isinstance(error, FileNotFoundError) and isinstance(cause, Exception) and _status(cause) != NOT_FOUND:
        return cause
    return error


def _status(error: Exception) -> object:
    """Return the number in the answer of a server, if the error has one."""
    return error.status if hasattr(error, "status") else getattr(error, "code", None)


def _reason(error: Exception) -> str:
    """Return the first line of an error; that of a server without the address, which may hold a signature."""
    message = getattr(error, "message", None)
    if _status(error) and message:
        return f"{_status(error)} {message}"
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _denied(error: Exception) -> bool:
    named = "credential" in f"{type(error).__name__} {error}".lower()
    return isinstance(error, PermissionError) or named or _status(error) in DENIED
