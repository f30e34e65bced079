"""FAISS's factory: an empty index from its string, set to our defaults, and what FAISS refuses in plain words."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unhub.arrays import random_positions
from unhub.errors import optional
from unhub.layouts import Form, Layout

EF_SEARCH = 128  # FAISS's own 16 is for easier data than two modalities
REFINED = 4  # times k, of the candidates that RFlat looks at again; FAISS's own 1 would only put them in order
PADDING = 128  # how many zeros a product quantiser may need for its parts to divide the dimensions
TRAINING_ROWS = 65_536  # what 256 centroids can use; more where there are more clusters

REMEDIES: Mapping[str, str] = {
    "could not parse index string": "for example HNSW32 or IVF256,Flat will do; PCA16 and IDMap want an index "
    "after them, as in PCA16,Flat",
    "Number of training points": "take fewer clusters or centroids, or index='exact', which needs no training",
    "should be a multiple of the number of subquantizers": "take fewer parts, or a number of dimensions they divide",
    "could not set parameter": "it is not one of this index",
}


def library() -> ModuleType:
    """Return FAISS, or say how to install it."""
    return optional("faiss", "faiss", "an index of FAISS")


def plain_factory(factory: str) -> str:
    """Return the factory string without maps of ids around its indexes, since a searcher keeps the ids."""
    return re.sub(r"(?<![^,(])IDMap2?,|,IDMap2?(?![^,)])", "", factory)


def open_index(factory: str, dimensions: int, form: Form) -> tuple[Any, int]:
    """Return an empty index and its width: the augmented dimensions, padded until the factory takes them."""
    if not factory:
        raise ValueError("faiss needs a factory string, for example index='faiss:HNSW32'")
    faiss = library()
    metric = faiss.METRIC_INNER_PRODUCT if form == "ip" else faiss.METRIC_L2
    least = Layout.of(dimensions, form).width
    for width in range(least, least + PADDING):
        with contextlib.suppress(RuntimeError):
            return faiss.index_factory(width, factory, metric), width
    return faiss.index_factory(least, factory, metric), least  # no width will do: let FAISS say why


def set_parameters(index: Any, parameters: str) -> None:
    """Set how hard the index searches: our defaults, then what was asked for."""
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
            part.k_factor = REFINED
        if isinstance(part, faiss.IndexPQ | faiss.IndexIVFPQ):
            # Most of the time a product quantiser is trained for, and of use to a search by Hamming distance alone.
            part.do_polysemous_training = "ht=" in parameters
            part.pq.cp.min_points_per_centroid = 1  # FAISS would fill the screen with one warning for each part
    if parameters:
        space.set_index_parameters(index, parameters.replace(";", ","))


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


def training_sample(index: Any, count: int) -> NDArray[np.int64]:
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


@contextlib.contextmanager
def errors_of(settings: str) -> Iterator[None]:
    """Turn what FAISS refuses into a ValueError in its own words, without its file and line, and with a remedy."""
    try:
        yield
    except RuntimeError as error:
        reason = re.sub(r"^.*\.(cpp|h):\d+: (Error: '.*' failed: (?=\S))?", "", str(error), flags=re.DOTALL).strip()
        remedy = next((f"; {words}" for sign, words in REMEDIES.items() if sign in reason), "")
        raise ValueError(f"index 'faiss:{settings}': {reason}{remedy}") from error
