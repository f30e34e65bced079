"""The page of the demo: the report on the emoji, with their characters in it."""

from __future__ import annotations

from pathlib import Path

import unhub
from unhub.compute.workers import Progress
from unhub.demo.emoji.space import Space

TITLE = "Emoji by description: hubs, before and after"


def write_emoji_page(
    space: Space, path: Path, command: str, threads: int | None = None, progress: Progress | None = None
) -> None:
    """Write the report on the test keywords, with the correction that was fitted on the texts of the bank.

    Each keyword is asked once, and every emoji of the test that it describes is an answer. Those of the bank are left
    out, since the correction has seen them.
    """
    bank = space.descriptions("bank")
    asked, relevance = space.descriptions("test", "keyword").without(bank.texts).joined()
    labels = [f"{in_colour(emoji)} {name}" for emoji, name in zip(space.items.ids.tolist(), space.names, strict=True)]
    unhub.report(
        space.items,
        bank.vectors,
        asked.vectors,
        relevance,
        path=path,
        item_texts=labels,
        query_texts=asked.texts,
        corrections=[space.correction],
        title=TITLE,
        command=command,
        threads=threads,
        progress=progress,
    )


def in_colour(emoji: str) -> str:
    """Return an emoji in the form that a page shows in colour.

    Some fonts for texts draw single characters, such as faces, in black; a variation selector asks for the emoji font.
    """
    return f"{emoji}\N{VARIATION SELECTOR-16}" if len(emoji) == 1 else emoji
