"""The vector indexes of LanceDB: what one is, read from a table, and the same one built on another table.

LanceDB finds by codes and gives back distances of codes (under cosine those of 8-bit codes are twice too large) unless
it is told to refine: candidates for `refine` times as many places are then scored again from their vectors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from unhub.stores.store import Codes, IndexKind, Metric


@dataclass(frozen=True)
class LanceKind:
    """A kind of index: its names in LanceDB, what it is, and the refine factor of searches by unhub, 0 for none."""

    config: str
    shown: str
    index: IndexKind
    codes: Codes
    refine: int = 0

    def refined(self, k: int, effort: int | None = None) -> int:
        """Return the refine factor of a search for k items: more with an effort, less where they are many."""
        if not self.refine:
            return 0
        asked = 0 if effort is None else effort if self.index == "ivf" else effort // k
        return min(max(self.refine, asked), max(2, MOST_REFINED // k))


# By the name that a table gives its index.
KINDS: Mapping[str, LanceKind] = {
    "IvfFlat": LanceKind("IvfFlat", "IVF_FLAT", "ivf", "none"),
    "IvfSq": LanceKind("IvfSq", "IVF_SQ", "ivf", "int8", 2),
    "IvfPq": LanceKind("IvfPq", "IVF_PQ", "ivf", "pq", 30),
    "IvfRq": LanceKind("IvfRq", "IVF_RQ", "ivf", "binary", 10),
    "IvfHnswFlat": LanceKind("HnswFlat", "IVF_HNSW_FLAT", "hnsw", "none"),
    "IvfHnswSq": LanceKind("HnswSq", "IVF_HNSW_SQ", "hnsw", "int8", 4),
    "IvfHnswPq": LanceKind("HnswPq", "IVF_HNSW_PQ", "hnsw", "pq", 30),
}
UNKNOWN = LanceKind("", "unknown", "other", "other", 10)
RQ_MULTIPLE = 8  # IVF_RQ refuses other numbers of dimensions
MOST_REFINED = 5000  # rows that one query scores again, where that is more than twice as many as are wanted
PARTITIONS_IN_PLAN = "partitions_ranked="


@dataclass(frozen=True)
class LanceIndex:
    """A vector index. settings: numbers by the names that LanceDB's constructors have, but for `sub_vector_width`.

    The width of a sub-vector is kept, not how many there are: a copy with more dimensions gets more sub-vectors.
    """

    kind: str
    metric: Metric
    settings: Mapping[str, int] = field(default_factory=dict)
    name: str = ""
    segments: int = 1  # what was written later may stand in segments of its own, each with as many partitions

    @property
    def about(self) -> LanceKind:
        """What LanceDB and unhub call this kind."""
        return KINDS.get(self.kind, UNKNOWN)

    @property
    def multiple(self) -> int:
        """What the number of dimensions must be a multiple of."""
        width = self.settings.get("sub_vector_width")
        if width is not None:
            return width * (2 if self.settings.get("num_bits") == 4 else 1)  # two 4-bit codes share a byte
        return RQ_MULTIPLE if self.about.codes == "binary" else 1

    @property
    def least_rows(self) -> int:
        """How many rows LanceDB needs to train it; with fewer it keeps an index that holds nothing."""
        return 1 << self.settings.get("num_bits", 8) if self.about.codes == "pq" else 1

    def config(self, library: Any, metric: Metric, dimensions: int) -> Any:
        """Return LanceDB's description of this index for a table of so many dimensions."""
        options = dict(self.settings)
        width = options.pop("sub_vector_width", None)
        if width is not None:
            options["num_sub_vectors"] = dimensions // width
        return getattr(library, self.about.config)(distance_type=metric, **options)

    def as_text(self) -> str:
        """Return it as JSON, to be kept with a table."""
        return json.dumps({"kind": self.kind, "metric": self.metric, "settings": dict(self.settings)})

    @classmethod
    def of_text(cls, text: str) -> LanceIndex:
        """Return the index that `as_text` wrote."""
        kept = json.loads(text)
        return cls(kept["kind"], kept["metric"], kept["settings"])


def index_of(table: Any, column: str, dimensions: int) -> LanceIndex | None:
    """Return the vector index of a column, None if it has none."""
    for one in table.list_indices():
        if one.columns == [column]:
            details = one.index_details or {}
            metric = str(details.get("metric_type", "")).lower()
            settings, segments = _settings(details, dimensions), one.num_segments or 1
            return LanceIndex(one.index_type, cast("Metric", metric), settings, one.name, segments)
    return None


def _settings(details: Mapping[str, Any], dimensions: int) -> dict[str, int]:
    """Return what the engine tells about an index, by the names of its constructors."""
    found: dict[str, int] = {}
    codes, graph, hints = (details.get(part) or {} for part in ("compression", "hnsw", "runtime_hints"))
    if codes.get("type") in ("pq", "rq"):
        found["num_bits"] = int(codes["num_bits"])
    if "num_sub_vectors" in codes:
        found["sub_vector_width"] = dimensions // int(codes["num_sub_vectors"])
    if graph:
        found |= {"m": int(graph["max_connections"]), "ef_construction": int(graph["construction_ef"])}
    if details.get("target_partition_size"):
        found["target_partition_size"] = int(details["target_partition_size"])
    for name, hint in (("max_iterations", "lance.ivf.max_iters"), ("sample_rate", "lance.ivf.sample_rate")):
        if hint in hints:
            found[name] = int(hints[hint])
    return found


def partitions_of(table: Any, column: str, index: LanceIndex, dimensions: int) -> int | None:
    """Return how many partitions an index has, which only the plan of a search tells; over 999 it tells three digits.

    None where the plan does not say.
    """
    search = table.search([1.0] * dimensions, vector_column_name=column).distance_type(index.metric).limit(1)
    plan = search.minimum_nprobes(1).maximum_nprobes(0).select(["_distance"]).analyze_plan()
    told = plan.partition(PARTITIONS_IN_PLAN)[2].partition(",")[0].partition("]")[0].split()
    if not told:
        return None
    total = float(told[0]) * {"K": 1000, "M": 1000_000}.get("".join(told[1:]), 1)
    return max(1, round(total / index.segments))
