"""A small space to serve, and clients of its API in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from starlette.testclient import TestClient

import unhub
from unhub import Vectors, kernels
from unhub.service.http.api import application
from unhub.service.http.safety import Access
from unhub.service.limits import ServiceLimits
from unhub.service.served import Gallery, SampleQueries, ServedSpace
from unhub.service.service import Service

ITEMS, DIMENSIONS, BANK, SAMPLES = 60, 8, 400, 70
LOCAL = "http://localhost"


def cloud(count: int, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return rows around one direction, so that some items are hubs."""
    draws = np.random.default_rng(seed)
    return (draws.standard_normal((count, DIMENSIONS)) + 0.5).astype(np.float32)


def small_space(method: str = "nnn:k=8,alpha=0.75", **changes: Any) -> ServedSpace:
    """Return items named i0, i1, ... with texts, a bank and sample queries."""
    items = Vectors(np.array([f"i{row}" for row in range(ITEMS)]), cloud(ITEMS, 1))
    bank = Vectors(np.arange(BANK), cloud(BANK, 2))
    texts: dict[int | str, str] = {f"i{row}": f"item <b>{row}</b>" for row in range(ITEMS)}
    samples = SampleQueries(
        Vectors(np.arange(SAMPLES), cloud(SAMPLES, 3)), tuple(f"sample {row}" for row in range(SAMPLES))
    )
    with kernels.prefer("numpy"):
        fitted = unhub.fit(items, None if method == "raw" else bank, method=method)
    given = {"samples": samples, "bank": bank, **changes}
    return ServedSpace("small", Gallery(items, texts), fitted, **given)


@contextmanager
def served(
    space: ServedSpace | None = None,
    access: Access | None = None,
    limits: ServiceLimits | None = None,
    state: Path | None = None,
    log: Path | None = None,
    allow_where: bool = False,
) -> Iterator[tuple[Service, TestClient]]:
    """Serve a space in this process."""
    with kernels.prefer("numpy"):
        service = Service(
            space or small_space(), limits or ServiceLimits(), state=state, log=log, allow_where=allow_where
        )
        try:
            app = application(service, access or Access())
            with TestClient(app, LOCAL, raise_server_exceptions=False) as client:
                yield service, client
        finally:
            service.close()


def told(answer: Any, status: int = 400) -> dict[str, str]:
    """Return what an error tells."""
    assert answer.status_code == status, answer.text
    error: dict[str, str] = answer.json()["error"]
    assert set(error) == {"argument", "problem", "remedy"}
    return error
