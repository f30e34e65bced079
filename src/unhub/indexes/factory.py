"""FAISS's factory: an empty index from its string, set to our defaults, and what it is made of."""

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
from unhub.layouts import Form, Layout

EF_SEARCH = 128  # FAISS's own 16 is for easier data than two modalities
REFINE_FACTOR = 4  # times k, of the candidates that RFlat looks at again; FAISS's own 1 would only put them in order
PADDING_ZEROS = 128  # that a product quantiser may need at most for its parts to divide the dimensions
TRAINING_ROWS = 65_536  # what 256 centroids can use; more where there are more clusters


def library() -> ModuleType:
    """Return FAISS, or say how to install it."""
    return optional("faiss", "faiss", "an index of FAISS")


def plain_factory(factory: str) -> str:
    """Return the factory string without maps of ids around its indexes, since a searcher keeps the ids."""
    return re.sub(r"(?<![^,(])IDMap2?,|,IDMap2?(?![^,)])", "", factory)


def open_index(settings: str, dimensions: int, rotate: bool) -> tuple[Any, Layout]:
    """Return an empty index, set to our defaults and its parameters, and the layout of the vectors it takes.

    Augmented vectors are padded with zeros until the factory takes their width.
    """
    given, _, parameters = settings.partition(";")
    factory = plain_factory(given)
    if not factory:
        raise ArgumentError("index", "'faiss' has no factory string", "write one after a colon, such as faiss:HNSW32")
    form: Form = "ip" if factory == "Flat" else "l2"
    faiss = library()
    metric = faiss.METRIC_INNER_PRODUCT if form == "ip" else faiss.METRIC_L2
    least = Layout.of(dimensions, form).width
    refused: RuntimeError | None = None
    for width in range(least, least + PADDING_ZEROS):
        try:
            index = faiss.index_factory(width, factory, metric)
        except RuntimeError as error:
            refused = error
            continue
        set_parameters(index, parameters, settings)
        return index, Layout.of(dimensions, form, rotate, pad_to=width)
    raise ArgumentError(
        "index",
        f"'faiss:{settings}' is not a factory string that FAISS takes for vectors of {least} to {width} dimensions",
        "write for example HNSW32 or IVF256,Flat; PCA16 and IDMap need an index after them, as in PCA16,Flat; the "
        "parts of a product quantiser must divide the dimensions, so take fewer",
    ) from refused


def set_parameters(index: Any, parameters: str, settings: str = "") -> None:
    """Set how hard the index searches: our defaults, then what was asked for; errors speak of these settings."""
    faiss = library()
    space, clusters = faiss.ParameterSpace(), faiss.try_extract_index_ivf(index)
    if clusters is not None:
        clusters.cp.min_points_per_centroid = 1
        clusters.nprobe = min(clusters.nlist, round(2 * clusters.nlist**0.5))
    with contextlib.suppress(RuntimeError):  # the index is no HNSW
        space.set_index_parameter(index, "efSearch", EF_SEARCH)
    for part in parts_of(index):
        if isinstance(part, faiss.IndexNSG):
            part.nsg.search_L = EF_SEARCH  # which the parameters have no name for
        if isinstance(part, faiss.IndexRefine):
            part.k_factor = REFINE_FACTOR
        if isinstance(part, faiss.IndexPQ | faiss.IndexIVFPQ):
            # Most of the time a product quantiser is trained for, and of use to a search by Hamming distance alone.
            part.do_polysemous_training = "ht=" in parameters
            part.pq.cp.min_points_per_centroid = 1  # FAISS would fill the screen with one warning for each part
    for name, value in _pairs(parameters, settings):
        try:
            space.set_index_parameter(index, name, value)
        except RuntimeError as error:
            problem = f"'faiss:{settings}' cannot set the parameter {name} to {value:g}: it is not one of this index"
            raise ArgumentError("index", problem, "leave it out, or take an index that has it") from error


def _pairs(parameters: str, settings: str) -> Iterator[tuple[str, float]]:
    """Yield the names and numbers of `nprobe=3;efSearch=64`; commas and spaces may stand between them too."""
    for one in parameters.replace(";", " ").replace(",", " ").split():
        name, _, value = one.partition("=")
        try:
            yield name, float(value)
        except ValueError:
            problem = f"'faiss:{settings}' has the parameter {one!r}, which is not of the form name=number"
            raise ArgumentError("index", problem, "write for example nprobe=32") from None


def parts_of(index: Any) -> Iterator[Any]:
    """Yield an index and those it is made of."""
    part = library().downcast_index(index)
    yield part
    for name in ("index", "base_index", "storage"):
        if (inner := getattr(part, name, None)) is not None:
            yield from parts_of(inner)


def is_coded(index: Any) -> bool:
    """Return whether it stores codes that are shorter than the vectors, from which these are not had back exactly."""
    return any(0 < getattr(part, "code_size", 0) < 4 * part.d for part in parts_of(index))


def is_refined(index: Any) -> bool:
    """Return whether it looks at the vectors behind the codes once more by itself."""
    return any(isinstance(part, library().IndexRefine) for part in parts_of(index))


def is_transformed(index: Any) -> bool:
    """Return whether it turns or cuts the vectors in its own way first, as OPQ and PCA do."""
    return any(isinstance(part, library().IndexPreTransform) for part in parts_of(index))


def grows(index: Any) -> bool:
    """Return whether vectors can be added in parts; these graphs are made in one go."""
    at_once = library().IndexNSG | library().IndexNNDescent
    return not any(isinstance(part, at_once) for part in parts_of(index))


def check_training(index: Any, count: int, settings: str) -> None:
    """Raise an ArgumentError where there are fewer items than clusters, or than centroids of a product quantiser."""
    clusters = library().try_extract_index_ivf(index)
    # A char of C++: 1 where the coarse quantiser has its own way to train, such as a multi-index; else it is k-means.
    trained_apart = clusters is None or clusters.quantizer_trains_alone in (1, "\x01")
    centroids = [int(part.pq.ksub) for part in parts_of(index) if hasattr(part, "pq")]
    needed = max(0 if trained_apart else int(clusters.nlist), *centroids, 0)
    if count < needed:
        raise ArgumentError(
            "index",
            f"'faiss:{settings}' has {needed} clusters or centroids to train, and there are {count} items",
            "take fewer of them, or the exact index, which needs no training",
        )


def training_sample(index: Any, count: int) -> Positions:
    """Return the positions to train on: all, or as many as the clusters can use."""
    clusters = library().try_extract_index_ivf(index)
    wanted = max(TRAINING_ROWS, 64 * clusters.nlist if clusters is not None else 0)
    if count <= wanted:
        return np.arange(count)
    return random_positions(count, wanted, seed=0)


@contextlib.contextmanager
def threads_of(count: int | None) -> Iterator[None]:
    """Let FAISS use this many threads for a while; by default as many as OpenMP would."""
    faiss = library()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count or before)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
