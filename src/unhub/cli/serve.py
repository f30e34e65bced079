"""`unhub serve`: a page to look at and an API to call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from unhub.cli.display import echo
from unhub.cli.options import NoNotes, Threads, whole_number
from unhub.errors import optional

if TYPE_CHECKING:
    from unhub.service.served import ServedSpace

LARGE_ENTRIES = 50_000_000  # numbers in the items: from here on the compiled kernel is worth the seconds it takes


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; any but this machine's own needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, whole_number(0, help="Port to listen on; 0 takes any that is free.")] = 8000,
    threads: Threads = None,
    quiet: NoNotes = False,
) -> None:
    """Serve a page that searches raw and corrected side by side, and an HTTP API; without items, the emoji."""
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        optional(module, "serve", "the service")
    from unhub import kernels
    from unhub.service.api import application
    from unhub.service.safety import Access, ServiceLimits
    from unhub.service.served import demo_space
    from unhub.service.server import listen, run
    from unhub.service.service import Service

    bound = listen(host, port)
    with kernels.prefer("numpy"):
        space: ServedSpace = demo_space(threads)
        service = Service(space, ServiceLimits())
        app = application(service, Access())

        def ready() -> None:
            if not quiet:
                address, number = bound.getsockname()[:2]
                echo(f"Serving {space.name}, {len(service.live):,} items: http://{address}:{number}")
                echo("Ctrl-C ends it.")

        try:
            run(app, bound, ready)
        finally:
            service.close()
