"""Address: where a store is, as one text, for example `qdrant://localhost:6333/photos?vector=clip`.

    scheme://user:password@host:port/path?option=value#table.column      an engine behind a network
    scheme:https://host:port/path?option=value#table.column              likewise, by the URL of the engine
    scheme:folder#table.column?option=value                              an engine in this process

A password or a key in an address is used and never shown: an address prints without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from unhub.errors import ArgumentError

SECRETS = ("api_key", "password", "sslpassword", "token")  # options that are never shown
HIDDEN = "***"
ODD_LETTERS = "write /, ?, #, @, [ and ] in a user or password as %2F, %3F, %23, %40, %5B and %5D"


@dataclass(frozen=True)
class Address:
    """The parts of an address. `place` is a folder or file in this process, or a URL without collection and options.

    `collection` is the table, collection or index in it, "" where the address names none; `column` is the vector in
    it. `shown` is the address without secrets, the only text for messages and files.
    """

    scheme: str
    place: str = field(repr=False)
    collection: str
    column: str
    options: Mapping[str, str] = field(repr=False)
    shown: str
    network: bool

    def __str__(self) -> str:
        return self.shown

    @property
    def path(self) -> Path:
        """The folder or file of an engine in this process."""
        return Path(self.place)

    def option(self, name: str, default: str = "") -> str:
        """Return an option of the address."""
        return self.options.get(name, default)

    def check_options(self, *known: str) -> None:
        """Raise if the address has an option that the engine does not know."""
        for name in self.options:
            if name not in known:
                allowed = f"the options are {', '.join(known)}" if known else "it takes no options"
                place = self.shown.partition("?")[0]  # the value of an unknown option may be a secret
                raise ArgumentError("store", f"{place} has the unknown option {name!r}", allowed)

    def named(self) -> str:
        """Return the collection; raise if the address names none."""
        if not self.collection:
            raise ArgumentError("store", f"{self} names no collection", "add it to the address, as the docs show")
        return self.collection


def is_address(text: str, schemes: Mapping[str, object]) -> bool:
    """Return whether a text is the address of a store, not a file: it begins with a known scheme and a colon."""
    scheme, colon, rest = text.partition(":")
    return bool(colon and rest) and scheme in schemes


def parse_address(text: str) -> Address:
    """Return the parts of an address whose scheme is known."""
    scheme, _, rest = text.partition(":")
    if rest.startswith("//"):
        return _of_network(scheme, text, "")
    if rest.startswith(("http://", "https://")):
        return _of_network(scheme, rest, f"{scheme}:")
    return _in_process(scheme, rest)


def _of_network(scheme: str, url: str, before: str) -> Address:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ArgumentError("store", f"is no address that can be read ({scheme}://...)", ODD_LETTERS) from None
    behind = "" if "@" in parts.netloc else f"{parts.query}{parts.fragment}"
    if "@" in f"{parts.path}{behind}":  # a letter of the password was read as the end of the host
        raise ArgumentError("store", f"is no address that can be read ({scheme}://...)", ODD_LETTERS)
    fragment, _, late = parts.fragment.partition("?")  # options may stand last, as in an address of a folder
    collection, column = _fragment(fragment)
    options = _options(parts.query) | _options(late)
    shown = f"{before}{_without_password(parts)}{_shown_options(options)}{'#' if fragment else ''}{fragment}"
    return Address(scheme, url, collection, column, options, shown, True)


def _in_process(scheme: str, rest: str) -> Address:
    """Return the parts of `folder#table.column?option=value`; a folder may hold any letters but `#` and `?`."""
    body, _, query = rest.partition("?")
    place, _, fragment = body.partition("#")
    if not place:
        raise ArgumentError("store", f"'{scheme}:' names no folder or file", f"for example {scheme}:folder")
    collection, column = _fragment(fragment)
    options = _options(query)
    return Address(scheme, place, collection, column, options, f"{scheme}:{body}{_shown_options(options)}", False)


def _fragment(text: str) -> tuple[str, str]:
    """Return the collection and the column of `table.column`, or of `schema.table.column`."""
    collection, _, column = unquote(text).rpartition(".")
    return (collection, column) if collection else (column, "")


def _options(query: str) -> dict[str, str]:
    return dict(parse_qsl(query, keep_blank_values=True))


def _shown_options(options: Mapping[str, str]) -> str:
    shown = "&".join(f"{name}={HIDDEN if name in SECRETS else value}" for name, value in options.items())
    return f"?{shown}" if shown else ""


def _without_password(parts: SplitResult) -> str:
    """Return a URL without what may be secret in its user part: a password, or all of it where it may be a token."""
    user, at, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    if colon:
        user = f"{name}:{HIDDEN}"
    elif user and not parts.scheme.startswith("postgres"):
        user = HIDDEN
    return f"{parts.scheme}://{user}{at}{host}{parts.path}"
