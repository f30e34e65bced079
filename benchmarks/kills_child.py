"""The process that is killed: it reads commands, one JSON object in a line, and runs each in a fork of its own.

A fork is spared the imports, so that a kill falls into the command. It prints `done` or what went wrong; its parent
kills it after so many seconds if it is told to, and prints `ended` when it has ended.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import unhub
from unhub.deploying.deploy import deploy
from unhub.deploying.live import drop_old, rollback
from unhub.deploying.syncing import sync
from unhub.stores.store import Store

WRITING = ("create", "write", "remove", "finish", "drop", "set_field", "settle", "drop_field", "put_record", "publish")


def dying(kind: type[Store], step: int) -> None:
    """Let this process be killed before the call of this number of those that change a store, and after the last."""
    calls = itertools.count()

    def watched(call: Callable[..., object]) -> Callable[..., object]:
        def counted(*given: object) -> object:
            if next(calls) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*given)

        return counted

    for name in WRITING:
        setattr(kind, name, watched(getattr(kind, name)))


def run(told: dict[str, Any]) -> None:
    """Run a command as it was told."""
    store = unhub.store(told["store"])
    if "step" in told:
        dying(type(store), told["step"])
    if told["do"] == "deploy":
        queries = np.load(told["queries"])
        deploy(unhub.load(told["correction"]), store, told["mode"], queries=queries, switch=True, threads=1)
    elif told["do"] == "sync":
        sync(store, unhub.load(told["correction"]))
    else:
        {"rollback": rollback, "drop_old": drop_old}[told["do"]](store)


def main() -> None:
    """Import what the engine needs, and fork for every command."""
    warnings.simplefilter("ignore")  # LanceDB's, of forks
    for module in sys.argv[1:]:
        importlib.import_module(module)
    print("ready", flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                run(told)
                print("done", flush=True)
            except Exception as error:
                print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)
            finally:
                os._exit(0)
        if told.get("kill_after") is not None:
            time.sleep(told["kill_after"])
            os.kill(child, signal.SIGKILL)  # until it is waited for, no other process has its number
        os.waitpid(child, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main()
