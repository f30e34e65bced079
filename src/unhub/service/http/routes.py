"""Routes: one function for each question of the API, which calls the service in a thread where it computes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json

from unhub.data.ids import is_integer
from unhub.service.bodies import (
    ChangedItemsBody,
    GoneItemsBody,
    MarkBody,
    NewItemsBody,
    RefitBody,
    RerankBody,
    SamplesAnswer,
    SearchAnswer,
    SearchBody,
)
from unhub.service.limits import Refused
from unhub.service.service import Service

NOT_READY = {"ready": False}
A_FILE = {"requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}


class JsonAnswer(JSONResponse):
    """An answer in JSON; a text that is not valid, as one of a file may be, is written as an escape."""

    def render(self, content: object) -> bytes:
        try:
            return super().render(content)
        except UnicodeEncodeError:
            return json.dumps(content, allow_nan=False).encode()


class _QuickRequest(Request):
    """A request whose JSON is read by pydantic's parser: Python's own holds up the event loop six times longer."""

    async def json(self) -> Any:
        try:
            return from_json(await self.body())
        except ValueError as error:
            raise json.JSONDecodeError(str(error), "", 0) from None  # which FastAPI tells the caller


class _QuickRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def quickly(request: Request) -> Response:
            return await answer(_QuickRequest(request.scope, request.receive))

        return quickly


def search_routes(service: Service) -> APIRouter:
    """Return the routes that search and look."""
    routes = APIRouter(prefix="/v1", tags=["search"], route_class=_QuickRoute)

    @routes.get("/about")
    async def about() -> Response:
        """What is served, by which version, and what can be asked."""
        return JsonAnswer(service.about())

    @routes.get("/samples", response_model=SamplesAnswer)
    async def samples(
        start: Annotated[int, Query(ge=0, le=1 << 31)] = 0, count: Annotated[int, Query(ge=1, le=1000)] = 50
    ) -> Response:
        """Sample queries to try."""
        return JsonAnswer(service.samples(start, count))

    @routes.post("/search", response_model=SearchAnswer)
    async def search(body: SearchBody) -> Response:
        """The best items for a query, corrected; with `raw`, the raw ranking beside them."""
        return JsonAnswer(await service.search(body))

    @routes.post("/rerank")
    async def rerank(body: RerankBody) -> Response:
        """Candidates of another engine, in the corrected order."""
        return JsonAnswer(await asyncio.to_thread(service.rerank, body))

    @routes.post("/marks")
    async def marks(body: MarkBody) -> Response:
        """Keep which item was meant by a query; needs --state."""
        return JsonAnswer(await service.mark(body))

    @routes.get("/hubs", responses={202: {"description": "It is being computed: ask again."}})
    async def hubs(k: Annotated[int, Query(ge=1, le=1000)] = 10) -> Response:
        """How often the items are returned, raw and corrected, and the worst hubs."""
        found = await asyncio.to_thread(service.hubs, k)
        return JsonAnswer(NOT_READY, 202) if found is None else JsonAnswer(found)

    @routes.get("/bank", responses={202: {"description": "It is being computed: ask again."}})
    async def bank() -> Response:
        """The verdict on the bank, and how today's queries compare with it."""
        found = await asyncio.to_thread(service.bank)
        return JsonAnswer(NOT_READY, 202) if found is None else JsonAnswer(found)

    return routes


def item_routes(service: Service) -> APIRouter:
    """Return the routes of single items: to look at one, to add some, to remove some."""
    routes = APIRouter(tags=["items"], route_class=_QuickRoute)

    @routes.post("/v1/items")
    async def add(body: NewItemsBody) -> Response:
        """Add items, with new ids; the correction is extended by them."""
        return JsonAnswer(await service.in_turn(service.add_items, body))

    @routes.put("/v1/items")
    async def change(body: ChangedItemsBody) -> Response:
        """Give items other vectors, for example after embedding them again; the correction follows."""
        return JsonAnswer(await service.in_turn(service.replace_items, body))

    @routes.delete("/v1/items")
    async def remove(body: GoneItemsBody) -> Response:
        """Remove items."""
        return JsonAnswer(await service.in_turn(service.remove_items, body.ids))

    @routes.get("/v1/items/{id:path}")
    async def item(id: str) -> Response:
        """One item: its bias, its neighbours, the queries that return it."""
        return JsonAnswer(await service.item(id))

    @routes.get("/images/{id:path}", responses={200: {"content": {"image/*": {}}}})
    async def image(id: str) -> Response:
        """The picture of an item, from the folder that was named."""
        pictures = service.space.pictures
        version = service.live.now
        integers = version.correction.ids.dtype.kind == "i"
        version.position(int(id) if integers and is_integer(id) else id, "id")  # only of items that are served
        found = None if pictures is None else await asyncio.to_thread(pictures.read, id)
        if found is None:
            raise Refused(404, "id", f"{id!r} has no picture here")
        return Response(found[0], media_type=found[1])

    return routes


def change_routes(service: Service) -> APIRouter:
    """Return the routes of corrections and refits."""
    routes = APIRouter(prefix="/v1", tags=["corrections"], route_class=_QuickRoute)

    @routes.get("/corrections")
    async def versions() -> Response:
        """The versions of the correction, and which is active."""
        return JsonAnswer(await asyncio.to_thread(service.live.to_dict))

    @routes.post("/corrections", openapi_extra=A_FILE)
    async def upload(request: Request) -> Response:
        """Upload a file of unhub.save; it is a version then, which can be activated."""
        return JsonAnswer(await service.in_turn(service.live.upload, await request.body()))

    @routes.post("/corrections/rollback")
    async def roll_back() -> Response:
        """Answer by the version that was active before."""
        return JsonAnswer(await service.in_turn(service.roll_back))

    @routes.post("/corrections/{name}/activate")
    async def activate(name: str) -> Response:
        """Answer by this version from now on."""
        return JsonAnswer(await service.in_turn(service.activate, name))

    @routes.post("/refit", status_code=202)
    async def refit(body: RefitBody) -> Response:
        """Fit again in the background; the result is judged, and offered as a version."""
        return JsonAnswer(await service.in_turn(service.refit, body), 202)

    @routes.get("/refit")
    async def refit_status() -> Response:
        """How the refit stands."""
        return JsonAnswer(service.refit_status())

    @routes.delete("/refit")
    async def cancel() -> Response:
        """Stop the refit, or drop its offer."""
        return JsonAnswer(await service.in_turn(service.cancel_refit))

    return routes
