"""The API: translates HTTP into calls of the service, and errors into JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

import unhub
from unhub.errors import ArgumentError
from unhub.service.bodies import ErrorAnswer, SamplesAnswer, SearchAnswer, SearchBody
from unhub.service.safety import Access, Guard, Refused, problem_of
from unhub.service.service import Service
from unhub.service.version import UnknownItem

STATIC = Path(__file__).parent / "static"
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
    app.add_middleware(Guard, access=access, limits=service.limits)
    if access.origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(access.origins), allow_methods=["*"], allow_headers=["*"])
    _add_errors(app)
    _add_pages(app)
    _add_search(app, service)
    return app


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(ArgumentError)
    async def wrong(request: Request, error: ArgumentError) -> Response:
        status = error.status if isinstance(error, Refused) else 404 if isinstance(error, UnknownItem) else 400
        return Response(problem_of(error), status, media_type="application/json")

    @app.exception_handler(ValueError)
    async def unusable(request: Request, error: ValueError) -> Response:
        return Response(problem_of(ArgumentError("request", str(error))), 400, media_type="application/json")

    @app.exception_handler(RequestValidationError)
    async def misshapen(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        told = ArgumentError(where, first["msg"], "see /api for what is taken")
        return Response(problem_of(told), 422, media_type="application/json")

    @app.exception_handler(HTTPException)
    async def absent(request: Request, error: HTTPException) -> Response:
        told = ArgumentError("path", f"{request.url.path!r}: {error.detail}", "see /api for what there is")
        return Response(problem_of(told), error.status_code, error.headers, media_type="application/json")


def _add_pages(app: FastAPI) -> None:
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
        """Say that searches are answered."""
        return {"status": "ready"}


def _page(name: str) -> Response:
    if not (STATIC / name).is_file():
        raise HTTPException(404, "this installation has no pages")
    return FileResponse(STATIC / name)


def _add_search(app: FastAPI, service: Service) -> None:
    @app.get("/v1/about", tags=["search"])
    async def about() -> Response:
        """What is served, by which version, and what can be asked."""
        return JSONResponse(service.about())

    @app.get("/v1/samples", tags=["search"], response_model=SamplesAnswer)
    async def samples(
        start: Annotated[int, Query(ge=0, le=1 << 31)] = 0, count: Annotated[int, Query(ge=1, le=1000)] = 50
    ) -> Response:
        """Sample queries to try."""
        return JSONResponse(service.samples(start, count))

    @app.post("/v1/search", tags=["search"], response_model=SearchAnswer)
    async def search(body: SearchBody) -> Response:
        """The best items for a query, corrected, and beside them the raw ranking."""
        return JSONResponse(await service.search(body))
