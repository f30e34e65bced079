"""Deployments killed by SIGKILL at random moments: what is live answers as before or as the new one, and the same
command, run again, finishes and leaves nothing half-made.

For each engine, a collection with a live deployment; then, again and again, a process that deploys another correction
and goes live with it (both modes, now and then a rollback, a sync, a drop of old deployments or the first deployment in
a new place) is killed after a random delay within the time that it takes undisturbed. After each kill:

- what is live answers: it is the old correction or the new one, and its top 10 are those of exact search;
- the source has the items, vectors and payload that it had;
- the same command again succeeds, makes the new correction live once, and leaves no other collections, fields,
  records or files.

before, during, after: whether the kill met a place as it was, something between, or the finished work. Of Postgres only
the client is killed. Exit code 1 if anything did not hold. About 2 s for a kill.
"""

from __future__ import annotations

import argparse
import collections
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kills_places import ENGINES
from kills_rounds import CYCLE, Killed, kills, kills_at_steps


def main() -> None:
    """Kill, print a line for each, and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", action="append", choices=list(ENGINES), help="only these; repeatable")
    parser.add_argument("--kills", type=int, default=20, help="for each engine")
    parser.add_argument("--steps", action="store_true", help="instead, kill once at every call that changes a store")
    parser.add_argument("--items", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    done: list[Killed] = []
    for name in options.engine or ENGINES:
        if absent := ENGINES[name].absent:
            raise SystemExit(f"{name}: {absent} is not installed")
        with tempfile.TemporaryDirectory(prefix="unhub-kills-") as folder:
            if options.steps:
                done += kills_at_steps(ENGINES[name], Path(folder), options.items, tell)
            else:
                commands = [CYCLE[number % len(CYCLE)] for number in range(options.kills)]
                done += kills(ENGINES[name], Path(folder), commands, options.items, options.seed, tell)
    Console(width=110).print(summed_up(done))
    if any(one.violations for one in done):
        raise SystemExit(1)


def tell(one: Killed) -> None:
    """Print the line of a kill."""
    print(one, flush=True)


def summed_up(done: list[Killed]) -> Table:
    """Return the table: for each engine and command, how many kills met what, and how many did not hold."""
    table = Table("engine", "command", "kills", "before", "during", "after", "violations")
    for engine in dict.fromkeys(one.engine for one in done):
        mine = [one for one in done if one.engine == engine]
        for command in (*dict.fromkeys(one.command for one in mine), "all"):
            some = [one for one in mine if command in (one.command, "all")]
            when = collections.Counter(one.when for one in some)
            figures = (len(some), when["before"], when["during"], when["after"], sum(bool(o.violations) for o in some))
            table.add_row(engine, command, *map(str, figures), end_section=command == "all")
    return table


if __name__ == "__main__":
    main()
