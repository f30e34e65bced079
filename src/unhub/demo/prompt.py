"""The prompt: type a description, see what is found."""

from __future__ import annotations

from collections.abc import Callable

from unhub.demo.finding import Answer, Finder

Read = Callable[[], str]  # raises EOFError where nothing more comes


def converse(finder: Finder, read: Read, show: Callable[[Answer], None], say: Callable[[str], None]) -> None:
    """Answer line after line, until an empty one or the end; what cannot be answered gets a line that says why."""
    while True:
        try:
            line = read().strip()
        except EOFError:
            say("")  # the terminal stands after the prompt
            return
        if not line:
            return
        try:
            answer = finder.find(line)
        except ValueError as error:
            say(f"{error}.")
            continue
        show(answer)
