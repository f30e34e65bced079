"""FAISS's factory: make an empty index from a factory string, set our defaults, and inspect its parts."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from unhub.arrays import random_positions
from unhub.errors import ArgumentError, optional
from unhub.indexes.index import Positions
from unhub.layouts import Form, Shape

EF_SEARCH = 128  # FAISS's default of 16 is too low for two modalities
REFINE_FACTOR = 4  # times k candidates for RFlat to re-rank; FAISS's default of 1 only sorts them
PADDING_ZEROS = 128  # the most to try until a product quantiser's parts divide the dimensions
TRAINING_ROWS = 65_536  # enough for 256 centroids; more if there are more clusters


def library() -> ModuleType:
    """Return FAISS, or raise an error that says how to install it."""
    return optional("faiss", "faiss", "a FAISS index")


def plain_factory(factory: str) -> str:
    """Return the factory string without id maps, since a searcher keeps the ids."""
    return re.sub(r"(?<![^,(])IDMap2?,|,IDMap2?(?![^,)])", "", factory)


def open_index(settings: str, dimensions: int, rotate: bool) -> tuple[Any, Shape]:
    """Return an empty index with our defaults and its parameters set, and the shape of the vectors it takes.

    Augmented vectors are padded with zeros until the factory accepts their width.
    """
    given, _, parameters = settings.partition(";")
    factory = plain_factory(given)
    if not factory:
        raise ArgumentError(
            "index", "'faiss' has no factory string", "write one after a colon, for example faiss:HNSW32"
        )
    form: Form = "ip" if factory == "Flat" else "l2"
    faiss = library()
    metric = faiss.METRIC_INNER_PRODUCT if form == "ip" else faiss.METRIC_L2
    least = Shape.of(dimensions, form).width
    refused: RuntimeError | None = None
    for width in range(least, least + PADDING_ZEROS):
        try:
            index = faiss.index_factory(width, factory, metric)
        except RuntimeError as error:
            refused = error
            continue
        set_parameters(index, parameters, settings)
        return index, Shape.of(dimensions, form, rotate, pad_to=width)
    raise ArgumentError(
        "index",
        f"'faiss:{settings}' is not a factory string that FAISS accepts for vectors of {least} to {width} dimensions",
        "write for example HNSW32 or IVF256,Flat; PCA16 and IDMap need an index after them, as in PCA16,Flat; the "
        "parts of a product quantiser must divide the dimensions, so use fewer",
    ) from refused


def set_parameters(index: Any, parameters: str, settings: str = "") -> None:
    """Set the search parameters: our defaults, then those asked for; errors quote `settings`."""
    faiss = library()
    space, clusters = faiss.ParameterSpace(), faiss.try_extract_index_ivf(index)
    if clusters is not None:
        clusters.cp.min_points_per_centroid = 1
        clusters.nprobe = min(clusters.nlist, round(2 * clusters.nlist**0.5))
    with contextlib.suppress(RuntimeError):  # the index is not an HNSW
        space.set_index_parameter(index, "efSearch", EF_SEARCH)
    for part in parts_of(index):
        if isinstance(part, faiss.IndexNSG):
            part.nsg.search_L = EF_SEARCH  # has no name as a parameter
        if isinstance(part, faiss.IndexRefine):
            part.k_factor = REFINE_FACTOR
        if isinstance(part, faiss.IndexPQ | faiss.IndexIVFPQ):
            # It takes most of the training time of a product quantiser and serves only searches by Hamming distance.
            part.do_polysemous_training = "ht=" in parameters
            part.pq.cp.min_points_per_centroid = 1  # else FAISS prints a warning for each part
    for name, value in _pairs(parameters, settings):
        try:
            space.set_index_parameter(index, name, value)
        except RuntimeError as error:
            problem = f"'faiss:{settings}' cannot set the parameter {name} to {value:g}: this index does not have it"
            raise ArgumentError("index", problem, "leave it out, or use an index that has it") from error


def _pairs(parameters: str, settings: str) -> Iterator[tuple[str, float]]:
    """Yield the names and numbers of `nprobe=3;efSearch=64`; commas and spaces separate them too."""
    for one in parameters.replace(";", " ").replace(",", " ").split():
        name, _, value = one.partition("=")
        try:
            yield name, float(value)
        except ValueError:
            problem = f"'faiss:{settings}' has the parameter {one!r}, which is not of the form name=number"
            raise ArgumentError("index", problem, "write for example nprobe=32") from None


def parts_of(index: Any) -> Iterator[Any]:
    """Yield an index and the indexes it is made of."""
    part = library().downcast_index(index)
    yield part
    for name in ("index", "base_index", "storage"):
        if (inner := getattr(part, name, None)) is not None:
            yield from parts_of(inner)


def is_coded(index: Any) -> bool:
    """Return whether it stores lossy codes that are shorter than the vectors."""
    return any(0 < getattr(part, "code_size", 0) < 4 * part.d for part in parts_of(index))


def is_refined(index: Any) -> bool:
    """Return whether it re-ranks candidates by their full vectors itself."""
    return any(isinstance(part, library().IndexRefine) for part in parts_of(index))


def is_transformed(index: Any) -> bool:
    """Return whether it rotates or shortens the vectors itself first, as OPQ and PCA do."""
    return any(isinstance(part, library().IndexPreTransform) for part in parts_of(index))


def grows(index: Any) -> bool:
    """Return whether vectors can be added in parts; some graphs are built in one go."""
    at_once = library().IndexNSG | library().IndexNNDescent
    return not any(isinstance(part, at_once) for part in parts_of(index))


def check_training(index: Any, count: int, settings: str) -> None:
    """Raise an ArgumentError if there are fewer items than clusters or centroids of a product quantiser."""
    clusters = library().try_extract_index_ivf(index)
    # A C++ char: 1 if the coarse quantiser trains itself, as a multi-index does; else k-means trains it.
    trained_apart = clusters is None or clusters.quantizer_trains_alone in (1, "\x01")
    centroids = [int(part.pq.ksub) for part in parts_of(index) if hasattr(part, "pq")]
    needed = max(0 if trained_apart else int(clusters.nlist), *centroids, 0)
    if count < needed:
        raise ArgumentError(
            "index",
            f"'faiss:{settings}' has {needed} clusters or centroids to train, but there are {count} items",
            "use fewer of them, or the exact index, which needs no training",
        )


def training_sample(index: Any, count: int) -> Positions:
    """Return the positions of the items to train on: all, or as many as the clusters need."""
    clusters = library().try_extract_index_ivf(index)
    wanted = max(TRAINING_ROWS, 64 * clusters.nlist if clusters is not None else 0)
    if count <= wanted:
        return np.arange(count)
    return random_positions(count, wanted, seed=0)


def parameters_of(index: Any, selector: object = None, effort: int | None = None) -> object:
    """Return the parameters of one search: a selector of places, and efSearch or nprobe; others are the index's own."""
    faiss, part = library(), library().downcast_index(index)
    if isinstance(part, faiss.IndexPreTransform):
        return faiss.SearchParametersPreTransform(index_params=parameters_of(part.index, selector, effort))
    if isinstance(part, faiss.IndexRefine):
        inner = parameters_of(part.base_index, selector, effort)
        return faiss.IndexRefineSearchParameters(k_factor=part.k_factor, base_index_params=inner)
    if isinstance(part, faiss.IndexIVF):
        return faiss.SearchParametersIVF(sel=selector, nprobe=effort or part.nprobe)
    if isinstance(part, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(sel=selector, efSearch=effort or part.hnsw.efSearch)
    return faiss.SearchParameters(sel=selector)


@contextlib.contextmanager
def threads_of(count: int | None) -> Iterator[None]:
    """Let FAISS use this many threads inside the `with` block; None is OpenMP's default."""
    faiss = library()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count or before)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
