"""Bodies: what the API takes and what it answers, as models of pydantic, which also make its documentation."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from unhub.service.limits import MOST_IDS


def _as_id(one: object) -> object:
    if not isinstance(one, int | str) or isinstance(one, bool):
        raise ValueError("is no id: an id is an integer or a text")
    if isinstance(one, str) and one.endswith("\0"):
        raise ValueError(f"{one!r} ends in NUL, and no id does")  # arrays of texts would drop it
    return one


ItemId: TypeAlias = Annotated[int | str, BeforeValidator(_as_id)]
Vector: TypeAlias = Annotated[list[FiniteFloat], Field(min_length=1)]
WAYS = ("text", "texts", "vector", "vectors", "item", "sample", "picture")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class QueryBody(_Body):
    """A query: exactly one of these. `texts` and `vectors` are several descriptions of one target."""

    text: StrictStr | None = Field(None, description="A description; needs an encoder.")
    texts: list[StrictStr] | None = Field(None, min_length=1, description="Several descriptions of one target.")
    vector: Vector | None = Field(None, description="A query vector.")
    vectors: list[Vector] | None = Field(None, min_length=1, description="Several query vectors for one target.")
    item: ItemId | None = Field(None, description="More like this item, which is itself left out.")
    sample: ItemId | None = Field(None, description="A sample query, by its id.")
    picture: StrictStr | None = Field(None, description="A PNG, JPEG or WebP file in base64; needs an encoder.")

    @model_validator(mode="after")
    def _one_way(self) -> QueryBody:
        given = [name for name in WAYS if getattr(self, name) is not None]
        if len(given) != 1:
            named = " and ".join(given) if given else "none"
            raise ValueError(f"give exactly one of {', '.join(WAYS)}; got {named}")
        return self

    @property
    def way(self) -> str:
        """The name of what is asked with."""
        return next(name for name in WAYS if getattr(self, name) is not None)


class SearchBody(QueryBody):
    """A search."""

    k: StrictInt = Field(10, description="How many items to return.")
    strength: FiniteFloat = Field(1.0, description="How much of the correction: 0 is raw, 1 is all of it.")
    combine: StrictStr | None = Field(None, description="How several queries become one: sa, ra, mf or head.")
    among: list[ItemId] | None = Field(None, max_length=MOST_IDS, description="The only ids to return.")
    exclude: list[ItemId] = Field([], max_length=MOST_IDS, description="Ids to leave out.")
    where: Any = Field(None, description="A filter in the language of the engine, where a store is searched.")
    raw: bool = Field(False, description="Also return the raw ranking, and say how far each hit moved.")
    log: bool = Field(True, description="False keeps it out of the log and the metrics, as for one that ranks again.")

    @property
    def is_asked(self) -> bool:
        """Whether somebody asked it: items and samples are vectors that were there before."""
        return self.item is None and self.sample is None


class RerankBody(_Body):
    """Candidates of another engine, best first, a list for each query."""

    ids: list[Annotated[list[ItemId], Field(max_length=MOST_IDS)]] = Field(min_length=1)
    scores: list[Annotated[list[FiniteFloat], Field(max_length=MOST_IDS)]] = Field(min_length=1)
    k: StrictInt = 10
    strength: FiniteFloat = 1.0


class NewItemsBody(_Body):
    """Items to add, with new ids."""

    ids: list[ItemId] = Field(min_length=1)
    vectors: list[Vector] = Field(min_length=1)
    texts: list[StrictStr] | None = None


class ChangedItemsBody(NewItemsBody):
    """Items to give other vectors; without texts they keep theirs."""


class GoneItemsBody(_Body):
    """Items to remove."""

    ids: list[ItemId] = Field(min_length=1)


class RefitBody(_Body):
    """What to fit: a method such as nnn:k=32, or all of them, on which queries."""

    method: StrictStr | None = None
    bank: Literal["bank", "log", "both"] = "bank"


class MarkBody(_Body):
    """A query and the item that was meant by it."""

    query: QueryBody
    item: ItemId


class Problem(BaseModel):
    """What is wrong: the argument, the problem as the rest of a sentence, and what to do."""

    argument: str
    problem: str
    remedy: str


class ErrorAnswer(BaseModel):
    """An error."""

    error: Problem


class ItemHit(BaseModel):
    """An item at its place in a ranking."""

    rank: int
    id: int | str
    score: float
    text: str | None
    image: str | None
    bias: float | None
    hub: bool


class CorrectedHit(ItemHit):
    """A hit of the corrected ranking; raw_rank is null if it is beyond what was fetched, or raw was not asked for."""

    raw_rank: int | None


class RawHit(ItemHit):
    """A hit of the raw ranking; rank_corrected is null if it is beyond what was fetched."""

    rank_corrected: int | None


class SearchAnswer(BaseModel):
    """What a search found, by which version; `raw` only where the raw ranking was asked for.

    fetched: how many places were looked at. corrected: whether the correction changed the scores, which some methods do
    only for some queries; null where the raw ranking was not asked for. asked: the text of the sample or item that was
    asked with.
    """

    version: str
    k: int
    strength: float
    unknown: list[str]
    hits: list[CorrectedHit]
    raw: list[RawHit] | None = None
    fetched: int
    corrected: bool | None
    asked: str | None


class SampleAnswer(BaseModel):
    """A sample query."""

    id: int | str
    text: str | None


class SamplesAnswer(BaseModel):
    """Some sample queries of all."""

    total: int
    samples: list[SampleAnswer]
