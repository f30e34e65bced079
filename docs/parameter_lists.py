"""List the parameters that docstrings name in their prose, for the API reference (a griffe extension)."""

import re
from typing import Any

import griffe

# An entry opens where a line or a sentence begins; several names may share one: `query_ids, item_images (paths): ...`.
ENTRY = re.compile(r"(?:^|(?<=[.;] ))(\w+(?: \(\w+\))?(?:(?:, | and )\w+(?: \(\w+\))?)*): ", re.MULTILINE)
NAME = re.compile(r"(?<!\()\b(?!and\b)\w+\b")
QUOTED = r"`\g<0>`"


class ParameterLists(griffe.Extension):
    """Turn `items: (n, d) rows. bank: past queries.` in a docstring into a list with an entry per parameter."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        _list_names(func, {parameter.name for parameter in func.parameters})

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        _list_names(cls, {name for name, member in cls.members.items() if member.is_attribute})


def _list_names(thing: griffe.Object, names: set[str]) -> None:
    if thing.docstring is not None:
        thing.docstring.value = with_lists(thing.docstring.value, names)


def with_lists(text: str, names: set[str]) -> str:
    """Return a docstring in which each of these names, where a colon follows it, begins an entry of a list."""
    return "\n\n".join(_paragraph(paragraph, names) for paragraph in text.split("\n\n"))


def _paragraph(text: str, names: set[str]) -> str:
    found = [match for match in ENTRY.finditer(text) if set(NAME.findall(match[1])) <= names]
    if not found:
        return text
    ends = [match.start() for match in found[1:]] + [len(text)]
    entries = [
        f"- {NAME.sub(QUOTED, match[1])}: {' '.join(text[match.end() : end].split()).rstrip(';')}"
        for match, end in zip(found, ends, strict=True)
    ]
    before = text[: found[0].start()].strip()
    return "\n\n".join([*([before] if before else []), "\n".join(entries)])
