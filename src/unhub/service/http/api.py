"""The API: translates HTTP into calls of the service, and errors into JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

import unhub
from unhub.errors import ArgumentError
from unhub.service.bodies import ErrorAnswer
from unhub.service.http.routes import change_routes, item_routes, search_routes
from unhub.service.http.safety import Access, Guard, problem_of
from unhub.service.joining import Closed
from unhub.service.limits import Refused
from unhub.service.service import Service
from unhub.service.version import UnknownItem

STATIC = Path(__file__).parents[1] / "static"
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": meaning}
    for status, meaning in {
        400: "An argument is wrong.",
        401: "The token is missing or wrong.",
        403: "The caller is refused.",
        404: "There is no such thing.",
        408: "The body did not come in time.",
        409: "Something else is under way.",
        413: "The body is too large.",
        422: "The body is not as described.",
        429: "Too many requests at the same time.",
        503: "The store does not answer, or the service is ending.",
    }.items()
}


def application(service: Service, access: Access) -> FastAPI:
    """Return the API of a service."""
    app = FastAPI(
        title="unhub",
        version=unhub.__version__,
        description=f"Search {service.space.name}, corrected for hubs.",
        docs_url=None,
        redoc_url=None,
        responses=ERRORS,
    )
    app.add_middleware(Guard, access=access, limits=service.limits, observe=service.metrics.request)
    if access.origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(access.origins), allow_methods=["*"], allow_headers=["*"])
    _add_errors(app, service)
    _add_pages(app, service)
    for routes in (search_routes, item_routes, change_routes):
        app.include_router(routes(service))
    return app


def _add_errors(app: FastAPI, service: Service) -> None:
    @app.exception_handler(ArgumentError)
    async def wrong(request: Request, error: ArgumentError) -> Response:
        if error.name == "store" and not isinstance(error, Refused):
            error = service.store_failed(error)
        status = error.status if isinstance(error, Refused) else 404 if isinstance(error, UnknownItem) else 400
        return Response(problem_of(error), status, media_type="application/json")

    @app.exception_handler(Closed)
    async def ending(request: Request, error: Closed) -> Response:
        told = Refused(503, "service", "is ending", "ask another one")
        return Response(problem_of(told), told.status, media_type="application/json")

    @app.exception_handler(RequestValidationError)
    async def misshapen(request: Request, error: RequestValidationError) -> Response:
        told = ArgumentError(*_said(error.errors()[0]), "see /api for what is taken")
        return Response(problem_of(told), 422, media_type="application/json")

    @app.exception_handler(HTTPException)
    async def absent(request: Request, error: HTTPException) -> Response:
        told = ArgumentError("path", f"{request.url.path!r}: {error.detail}", "see /api for what there is")
        return Response(problem_of(told), error.status_code, error.headers, media_type="application/json")


def _said(first: Mapping[str, Any]) -> tuple[str, str]:
    """Return the argument that pydantic names, and its problem as the rest of a sentence."""
    kind, place = first["type"], first["loc"]
    if kind == "json_invalid":
        return "body", f"is not JSON: {first['ctx']['error']}"
    where = ".".join(str(part) for part in place[1:]) or str(place[0])
    if kind == "value_error":
        return where, str(first["ctx"]["error"])
    known = {"missing": "is missing", "extra_forbidden": "is not known here"}
    text = first["msg"].removeprefix("Input ")
    return where, known.get(kind, text[:1].lower() + text[1:])


def _add_pages(app: FastAPI, service: Service) -> None:
    app.mount("/static", StaticFiles(directory=STATIC, check_dir=False), name="static")

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return _page("index.html")

    @app.get("/api", include_in_schema=False)
    async def documentation() -> Response:
        return _page("api.html")

    @app.get("/healthz", tags=["health"])
    async def healthz() -> dict[str, str]:
        """Say that the process runs."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"])
    async def readyz() -> dict[str, str]:
        """Say that searches are answered: the store, if there is one, answers, and the service is not about to end."""
        if (reason := await service.unready()) is not None:
            raise reason
        return {"status": "ready"}

    @app.get("/metrics", tags=["health"], response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Figures for Prometheus."""
        return Response(await asyncio.to_thread(service.metrics_text), media_type=CONTENT_TYPE_LATEST)


def _page(name: str) -> Response:
    if not (STATIC / name).is_file():
        raise HTTPException(404, "this installation has no pages")
    return FileResponse(STATIC / name)
