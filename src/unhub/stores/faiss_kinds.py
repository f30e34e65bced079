"""What a FAISS index is: its metric, its kind, its codes, its settings, and what it calls its items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unhub.errors import optional
from unhub.indexes.factory import is_coded, library, parts_of
from unhub.stores.store import Codes, IndexKind, Metric


def labels_of(index: Any) -> NDArray[np.int64]:
    """Return what an index calls its items, in increasing order: places, or the ids that clusters were given."""
    faiss = library()
    clusters = faiss.try_extract_index_ivf(index)
    if clusters is None:
        return np.arange(index.ntotal)
    if is_decodable(index):
        clusters.set_direct_map_type(faiss.DirectMap.Hashtable)  # to decode by any id
    lists, sizes = clusters.invlists, [clusters.invlists.list_size(one) for one in range(clusters.nlist)]
    parts = [faiss.rev_swig_ptr(lists.get_ids(one), size).copy() for one, size in enumerate(sizes) if size]
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)


def is_decodable(index: Any) -> bool:
    """Return whether items may be decoded by id; FAISS ends the process where clusters of packed codes are asked."""
    return not any(isinstance(part, library().IndexIVFFastScan) for part in parts_of(index))


def _transforms(index: Any) -> list[Any]:
    faiss = library()
    if not isinstance(index, faiss.IndexPreTransform):
        return []
    return [faiss.downcast_VectorTransform(index.chain.at(place)) for place in range(index.chain.size())]


def metric_of(index: Any) -> Metric:
    """Return the metric; inner products of rows that the index itself scales to length one are cosines."""
    faiss = library()
    if index.metric_type == faiss.METRIC_L2:
        return "l2"
    scaled = any(isinstance(one, faiss.NormalizationTransform) for one in _transforms(index))
    return "cosine" if scaled else "dot"


def kind_of_index(index: Any) -> IndexKind:
    """Return how it finds: by clusters, by a graph, or by comparing with everything, codes too."""
    faiss = library()
    flat = (faiss.IndexFlat, faiss.IndexScalarQuantizer, faiss.IndexPQ, faiss.IndexFastScan, faiss.IndexLSH)
    wrapping = (faiss.IndexPreTransform, faiss.IndexRefine)
    kinds: Sequence[tuple[Any, IndexKind]] = ((faiss.IndexIVF, "ivf"), (faiss.IndexHNSW, "hnsw"), (flat, "flat"))
    part = next(one for one in parts_of(index) if not isinstance(one, wrapping))
    return next((name for one, name in kinds if isinstance(part, one)), "other")


def codes_of(index: Any) -> Codes:
    """Return what it keeps in place of the vectors."""
    faiss = library()
    if not is_coded(index):
        return "none"
    scalar = faiss.ScalarQuantizer
    widths: Mapping[int, Codes] = {scalar.QT_fp16: "float16", scalar.QT_8bit: "int8", scalar.QT_8bit_uniform: "int8"}
    for part in parts_of(index):
        if hasattr(part, "sq"):
            return widths.get(part.sq.qtype, "other")
        if hasattr(part, "pq"):
            return "pq"
        if isinstance(part, faiss.IndexLSH) or hasattr(part, "rabitq"):
            return "binary"
    return "other"


def settings_of(index: Any) -> dict[str, str]:
    """Return its settings as texts."""
    found = {"factory": factory_of(index), "class": type(index).__name__}
    for part in parts_of(index):
        found |= {name: str(getattr(part, name)) for name in ("nlist", "nprobe", "k_factor") if hasattr(part, name)}
        if hasattr(part, "hnsw"):
            found["efSearch"] = str(part.hnsw.efSearch)
    return found


def factory_of(index: Any) -> str:
    """Return a factory string that makes such an index, without what scales to length one; a flat one if none does."""
    tools = optional("faiss.contrib.factory_tools", "faiss", "a FAISS index")
    scaled = [isinstance(one, library().NormalizationTransform) for one in _transforms(index)]
    inner = library().downcast_index(index.index) if scaled == [True] else index
    try:
        return str(tools.reverse_index_factory(inner))
    except NotImplementedError:
        return "Flat"
