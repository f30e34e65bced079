"""`unhub serve`: a page to look at and an API to call."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from unhub.cli.display import echo
from unhub.cli.errors import argument
from unhub.cli.inputs import open_given_store, read_given, read_named, read_optional
from unhub.cli.options import VECTORS, Index, ItemIds, ItemTexts, NoNotes, QueryTexts, Threads, vectors, whole_number
from unhub.errors import ArgumentError, optional

if TYPE_CHECKING:
    from unhub.correction import Correction
    from unhub.data.vectors import Vectors
    from unhub.model import Model
    from unhub.service.encoders import QueryEncoder
    from unhub.service.served import SampleQueries, ServedSpace
    from unhub.service.service import Service
    from unhub.stores.store import Store

LARGE_ENTRIES = 50_000_000  # numbers in the items: from here on the compiled kernel is worth the seconds it takes
TOKEN_VARIABLE = "UNHUB_SERVE_TOKEN"
LEAST_TOKEN = 16  # letters


@dataclass(frozen=True)
class _Named:
    """What the options name."""

    items: Path | None
    item_ids: Path | None
    store: str | None
    correction: Path | None
    index: str | None
    encoders: list[str]
    item_texts: Path | None
    item_images: Path | None
    image_url: str | None
    bank: Path | None
    queries: Path | None
    query_texts: Path | None

    @property
    def is_demo(self) -> bool:
        return self.items is None and self.store is None


def serve(
    items: Annotated[Path | None, vectors(f"The gallery: {VECTORS}. Without it, the emoji are served.")] = None,
    item_ids: ItemIds = None,
    store: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Search in this store, for example qdrant://host/photos.")
    ] = None,
    correction: Annotated[Path | None, typer.Option(help="A file written by `unhub fit` or `unhub tune`.")] = None,
    index: Index = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Encoder of texts by its name or folder, or a file of `unhub multi train` on top of one; repeatable.",
        ),
    ] = None,
    item_texts: ItemTexts = None,
    item_images: Annotated[Path | None, typer.Option(help="Folder of pictures, named by the ids of the items.")] = None,
    image_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where pictures are, for example 'https://cdn/{id}.jpg'.")
    ] = None,
    bank: Annotated[Path | None, vectors("Past queries, for refits, new items and the page about the bank.")] = None,
    queries: Annotated[Path | None, vectors("Sample queries, to try and to count hubs with.")] = None,
    query_texts: QueryTexts = None,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep versions, added items and marks in this folder.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Log queries to this folder, which is a bank.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any that other machines reach needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, whole_number(0, help="Port to listen on; 0 takes any that is free.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the token that every caller must send; or set {TOKEN_VARIABLE}."),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Another site whose pages may call the API; repeatable."),
    ] = None,
    allow_where: Annotated[
        bool,
        typer.Option("--allow-where", help="Let callers filter Postgres, LanceDB and Milvus by texts such as SQL."),
    ] = False,
    threads: Threads = None,
    quiet: NoNotes = False,
) -> None:
    """Serve a page that searches raw and corrected side by side, and an HTTP API; without items, the emoji."""
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        optional(module, "serve", "the service")
    named = _Named(
        items,
        item_ids,
        store,
        correction,
        index,
        encoder or [],
        item_texts,
        item_images,
        image_url,
        bank,
        queries,
        query_texts,
    )
    _check(named)
    token = _token(token_file, host)
    from unhub import kernels
    from unhub.files.picture_addresses import host_of
    from unhub.service.http.api import application
    from unhub.service.http.safety import Access
    from unhub.service.http.server import listen, run
    from unhub.service.limits import ServiceLimits
    from unhub.service.service import Service

    access = Access(token, _origins(cors or []), None if image_url is None else host_of(image_url, "--image-url"))
    with listen(host, port) as bound:
        gallery = None if named.is_demo else _gallery(named)
        with kernels.prefer(None if gallery is not None and _is_large(gallery) else "numpy"):
            space = _space(named, gallery, threads)
            service = Service(space, ServiceLimits(), state=state, log=log, allow_where=allow_where)
            try:
                _warm(service)
                app = application(service, access)

                def ready() -> None:
                    address, number = bound.getsockname()[:2]
                    host_name = f"[{address}]" if ":" in address else address
                    echo(f"Serving {space.name}, {len(service.live.now):,} items: http://{host_name}:{number}")
                    if not quiet:
                        _say(service, token is not None)

                def ending() -> None:
                    service.ready = False

                run(app, bound, service.limits, ready, ending)
            finally:
                service.close()


def _check(named: _Named) -> None:
    """Refuse options that do not go together, before anything is read."""
    if named.items is not None and named.store is not None:
        raise ArgumentError("--store", "and --items both say what to serve", "give one of them")
    if named.is_demo:
        given = {
            "--correction": named.correction,
            "--item-ids": named.item_ids,
            "--index": named.index,
            "--encoder": named.encoders,
            "--item-texts": named.item_texts,
            "--item-images": named.item_images,
            "--image-url": named.image_url,
            "--bank": named.bank,
            "--queries": named.queries,
            "--query-texts": named.query_texts,
        }
        for option, value in given.items():
            if value:
                raise ArgumentError(option, "goes with items of your own", "give --items or --store too")
    elif named.correction is None:
        raise ArgumentError("--correction", "is missing", "give a file that `unhub fit` or `unhub tune` wrote")
    if named.item_images is not None and named.image_url is not None:
        raise ArgumentError("--image-url", "and --item-images both say where pictures are", "give one of them")
    if named.query_texts is not None and named.queries is None:
        raise ArgumentError("--query-texts", "has no queries to name", "give --queries too")


def _token(path: Path | None, host: str) -> str | None:
    """Return the token that callers must send; any address that other machines reach needs one."""
    from unhub.service.http.safety import is_local

    with argument("--token-file"):
        token = os.environ.get(TOKEN_VARIABLE) if path is None else path.read_text(encoding="utf-8").strip()
    source = TOKEN_VARIABLE if path is None else "--token-file"
    if token is not None and (len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable()):
        raise ArgumentError(source, f"must hold at least {LEAST_TOKEN} plain letters, without line breaks")
    if token is None and not is_local(host):
        remedy = f"put a token into a file and give --token-file, or set {TOKEN_VARIABLE}"
        raise ArgumentError("--host", f"{host} is reached by other machines, which needs a token", remedy)
    return token


def _origins(given: list[str]) -> tuple[str, ...]:
    """Return the origins that may call, as browsers send them."""
    for one in given:
        parts = urlsplit(one)
        is_bare = one.count("/") - one.endswith("/") == 2 and not any(letter in one for letter in "*?#@ ")
        if parts.scheme not in ("http", "https") or not parts.hostname or not is_bare:
            raise ArgumentError("--cors", f"must be an origin, got {one!r}", "for example 'https://shop.example'")
    return tuple(one.rstrip("/").lower() for one in given)


def _gallery(named: _Named) -> Vectors | Store:
    if named.store is not None:
        return open_given_store(named.store, "--store")
    assert named.items is not None
    return read_named(named.items, named.item_ids)


def _is_large(gallery: Vectors | Store) -> bool:
    from unhub.data.vectors import Vectors

    return isinstance(gallery, Vectors) and len(gallery) * gallery.dimensions >= LARGE_ENTRIES


def _space(named: _Named, gallery: Vectors | Store | None, threads: int | None) -> ServedSpace:
    """Read everything that the options name."""
    from unhub import files
    from unhub.service.kept.picture_files import PictureFiles
    from unhub.service.served import Gallery, ServedSpace, demo_space

    if gallery is None:
        return demo_space(threads)
    with argument("--correction"):
        assert named.correction is not None
        fitted = files.load(named.correction, "correction")
    encoder, model = _encoder(named.encoders)
    _check_encoder(encoder, model, fitted)
    with argument("--item-texts"):
        said = [] if named.item_texts is None else files.read_texts(named.item_texts).where_known(fitted.ids)
    with argument("--item-images", "item_images"):
        pictures = None if named.item_images is None else PictureFiles(named.item_images)
    return ServedSpace(
        name=(named.items.stem if named.items is not None else named.store or "").partition("?")[0].rpartition("/")[2],
        gallery=Gallery(gallery, {one: text for one, text in zip(fitted.ids.tolist(), said, strict=False) if text}),
        correction=fitted,
        encoder=encoder,
        head=model,
        samples=_samples(named),
        bank=read_optional(named.bank, "--bank"),
        index=named.index,
        pictures=pictures,
        image_url=named.image_url,
        threads=threads,
        recipe=_recipe(named, gallery),
    )


def _recipe(named: _Named, gallery: Vectors | Store) -> tuple[str, ...]:
    """Return the lines of Python that make the same searcher."""
    from unhub.stores.store import Store

    read = f"unhub.store({str(gallery.address)!r})" if isinstance(gallery, Store) else ""
    ids = "" if named.item_ids is None else f", ids={str(named.item_ids)!r}"
    texts = [name for name in named.encoders if not Path(name).is_file()]
    models = [name for name in named.encoders if Path(name).is_file()]
    tower = "lambda texts: head.encode_texts(encoder.texts(texts)).rows" if models else "encoder.texts"
    return (
        "import unhub",
        f"items = {read or f'unhub.read_vectors({str(named.items)!r}{ids})'}",
        f"correction = unhub.load({str(named.correction)!r})",
        f"searcher = unhub.searcher(items, correction{f', index={named.index!r}' if named.index else ''})",
        *([f"samples = unhub.read_vectors({str(named.queries)!r})"] if named.queries else []),
        *([f"head = unhub.load({models[0]!r})"] if models else []),
        *([f"encoder = unhub.load_encoder({texts[0]!r})", f"encode = {tower}"] if texts else []),
    )


def _encoder(names: list[str]) -> tuple[QueryEncoder | None, Model | None]:
    """Load the encoder and the trained model, whichever is named."""
    from unhub import files
    from unhub.service.encoders import open_encoder

    models = [name for name in names if Path(name).is_file()]
    others = [name for name in names if not Path(name).is_file()]
    for kind, some in (("files of models", models), ("encoders", others)):
        if len(some) > 1:
            raise ArgumentError("--encoder", f"names {len(some)} {kind}: {', '.join(some)}", "give one of each kind")
    with argument("--encoder", "model"):
        model = files.load(models[0], "model") if models else None
        return (open_encoder(others[0], model) if others else None), model


def _check_encoder(encoder: QueryEncoder | None, model: Model | None, fitted: Correction) -> None:
    """Raise unless texts become vectors of the items' space: here, and not when somebody searches."""
    with argument("--encoder", "model"):
        made = None if encoder is None else encoder.texts(["a picture"]).shape[1]
    made = model.dimensions if model is not None else made
    if made is not None and made != fitted.source.dimensions:
        problem = f"gives vectors of {made} dimensions, the items have {fitted.source.dimensions}"
        raise ArgumentError("--encoder", problem, "name the one that the items were embedded with")


def _samples(named: _Named) -> SampleQueries | None:
    from unhub import files
    from unhub.service.served import SampleQueries

    if named.queries is None:
        return None
    asked = read_given(named.queries, "--queries")
    with argument("--query-texts"):
        texts = None if named.query_texts is None else tuple(files.read_texts(named.query_texts).of(asked.ids))
    return SampleQueries(asked, texts)


def _warm(service: Service) -> None:
    """Search once, so that the first caller does not wait for a kernel to be compiled."""
    import numpy as np

    version = service.live.now
    first = version.correction.ids[0].item()
    version.search([version.vector(first)], 1, np.ones(1))


def _say(service: Service, has_token: bool) -> None:
    """Tell who may call, what is not taken, and what is kept."""
    now = service.live.now
    if has_token:
        echo("Callers send the token in the header Authorization: Bearer; the page asks for it.")
    if now.correction_name != service.live.given:
        echo(f"{now.correction_name} ({now.correction.spec}) was active and is again; {service.live.given} was given.")
    if service.space.head is not None and service.space.encoder is None:
        echo("Texts are not taken: the model stands on an encoder; name that too, by a second --encoder.")
    if service.state is None:
        echo("Versions, added items and marks end with the service; --state DIR keeps them.")
    if service.log is not None:
        echo(f"Queries are logged to {service.log.folder}.")
    echo("Ctrl-C ends it.")
