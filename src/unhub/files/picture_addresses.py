"""Addresses of pictures by a template, such as `https://cdn.example/{id}.jpg`."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, urlsplit

from unhub.arrays import Ids
from unhub.errors import ArgumentError

PLACE = "{id}"
WEB = ("http", "https")
PLAIN_HOST = re.compile(r"https?://[A-Za-z0-9._:\[\]-]+(?=[/?#]|$)")
SEPARATOR = re.compile(r"[/\\]")


def is_web(text: str) -> bool:
    """Return whether a text is an address of the web."""
    return text.startswith(tuple(f"{scheme}://" for scheme in WEB))


def host_of(address: str, name: str) -> str:
    """Return the host of pictures, as a page names it to the browser; errors are about the argument `name`."""
    parts = urlsplit(address)
    if PLACE not in address or parts.scheme not in WEB or PLACE in parts.netloc or not parts.netloc:
        problem = f"must be an address with {PLACE} after its host, got {address!r}"
        raise ArgumentError(name, problem, "for example 'https://cdn.example/{id}.jpg'")
    host = plain_host(address)
    if host is None:
        raise ArgumentError(name, f"has the host {parts.netloc!r}", "give a plain one")
    return host


def plain_host(address: str) -> str | None:
    """Return the host of an address with its scheme, None if it is not plain: a page names it to the browser."""
    found = PLAIN_HOST.match(address)
    return None if found is None else found[0]


def address_of(template: str, one: int | str) -> str:
    """Return the address of the picture of one id, which is escaped, so that it is never more than one name."""
    return template.replace(PLACE, quote(str(one), safe="", errors="surrogateescape"))


def addresses_of(template: str, ids: Ids) -> dict[int | str, str | Path]:
    """Return the address of each item's picture."""
    host_of(template, "item_images")
    return {one: address_of(template, one) for one in ids.tolist()}


def paths_of(template: str, ids: Ids) -> dict[int | str, str | Path]:
    """Return the path of each item's picture, such as `photos/{id}.jpg`, where there is one.

    An id such as `../secret` or `/etc/secret` would lead out of the folder, and has no picture. A link in the folder is
    followed: whoever keeps the folder made it, and no id can.
    """
    before = template.partition(PLACE)[0]
    folder = before.removesuffix(SEPARATOR.split(before)[-1])
    names = {one: template.removeprefix(folder).replace(PLACE, str(one)) for one in ids.tolist()}
    inside = {one: Path(folder + name) for one, name in names.items() if "\0" not in name and not _leads_out(name)}
    there: dict[int | str, str | Path] = {one: path for one, path in inside.items() if path.is_file()}
    if not there:
        raise ValueError(f"{template}: there is no file for any item, such as {ids[0].item()!r}, in its folder")
    return there


def _leads_out(name: str) -> bool:
    """Return whether a path may lead out of the folder that it is in."""
    return bool(Path(name).anchor) or ".." in SEPARATOR.split(name)
