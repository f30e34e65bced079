"""Whether a case was measured as the paper measured a figure: the model, the test part, the bank and the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unhub.bench.problems import TEST, choice_of_items
from unhub.bench.protocols import PAPERS, BankChoice, uses_items
from unhub.bench.published import Figure
from unhub.methods import METHODS, parse
from unhub.methods.method import Value

# What a paper calls a model that can be had under another name.
SAME_MODELS: Mapping[str, tuple[str, ...]] = {
    "openai/clip-vit-base-patch32": ("CLIP", "zs CLIP", "CLIP ViT-B/32", "zs CLIP ViT-B/32"),
    "openai/clip-vit-large-patch14-336": ("zs CLIP ViT-L/14@336px",),
    "laion/clap-htsat-unfused": ("zs CLAP",),
    "vinid/plip": ("zs PLIP",),
    "google/siglip-base-patch16-224": ("SigLIP",),
    "facebook/dino-vits16": ("DINO",),
}
TEMPERED = ("is", "dis", "sn", "dbsn", "dualis", "dualdis")  # whose settings are of the scale of the similarities


def off_protocol(figure: Figure, case: Mapping[str, Any], content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return in which ways a case was measured otherwise than a figure; only without any are the two compared.

    content: the results that the case is one of.
    """
    return tuple(_ways(figure, case, content))


def _ways(figure: Figure, case: Mapping[str, Any], content: Mapping[str, Any]) -> Iterator[str]:
    if not same_model(figure.model, content["model"]):
        yield "another model"
    if not figure.split:
        yield "the paper's split is not known"
    whole = official_size(content, case["direction"])
    if "asked" in case and whole is not None and (case["asked"], case["items"]) != whole:
        yield "another test part"
    folds, every = case.get("folds", 1), sum(part.partition("-")[0] == TEST for part in content.get("official", {}))
    if every > 1 and folds != every:
        yield f"{folds} of {every} test parts"
    queries, items = bank_sizes(case, content)
    if queries not in (None, case.get("bank_queries")):
        yield "another bank size"
    elif items not in (None, case.get("bank_items")) and uses_items(case["spec"]):
        yield f"{case['bank_items']:,} of {items:,} bank items"
    if content.get("scaled") and figure.method.partition(":")[0] in TEMPERED and not _own_of_model(figure):
        yield "similarities on another scale"
    if settings := other_settings(figure, case, content):
        yield settings


def _own_of_model(figure: Figure) -> tuple[str, ...]:
    """Return the settings that the paper has for the model of a figure alone, for similarities that it multiplies."""
    protocol, name = PAPERS[figure.paper], figure.method.partition(":")[0]
    return protocol.scaled_for(figure.model, figure.data_set).get(name, ())


def same_model(figure: str, measured: str) -> bool:
    """Say whether a model that was measured is the one of a figure."""
    return figure == measured or figure in SAME_MODELS.get(measured, ())


def official_size(content: Mapping[str, Any], direction: str, part: str = TEST) -> tuple[int, int] | None:
    """Return how many queries and items the official part has in a direction; None if that is not known."""
    counts, directions = content.get("official", {}).get(part), content.get("directions")
    if not counts or not directions:
        return None
    items, queries = counts
    return (queries, items) if direction == directions[0] else (items, queries)


def bank_sizes(case: Mapping[str, Any], content: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return how many bank queries and bank items the bank of a case has officially; None if that is not known."""
    choice = BankChoice.of(case["bank"] or TEST)
    # Of another data set, only the run that was given it knows.
    whole = case.get("bank_official") or official_size(content, case["direction"], choice.part)
    if not case["bank"] or whole is None or "bank_queries" not in case:
        return None, None
    queries, items = whole
    count = choice.count(queries)
    return count, None if choice.part == TEST else choice_of_items(items, count, queries)


def other_settings(figure: Figure, case: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """Say what the paper has in place of the settings of a case; nothing if they are those of the paper.

    Settings that the paper chooses must have been chosen, by its protocol. Those that it has for one model alone are
    for similarities that this model multiplies.
    """
    name = figure.method.partition(":")[0]
    if name not in METHODS or not METHODS[name].parameters():
        return ""
    of_model = _own_of_model(figure)
    tried = of_model or PAPERS[figure.paper].grids.get(name, ())
    if of_model and not content.get("scaled"):
        return f"the paper has {of_model[0].partition(':')[2]} for similarities on another scale"
    if ":" not in figure.method and len(tried) != 1:
        chosen = case["paper"] == figure.paper and case.get("choice")
        return "" if chosen else "not the chosen settings"
    own = parse(tried[0]).values if len(tried) == 1 else {}
    wanted = {**_values(name), **own, **_given(figure.method)}
    used = _values(case["spec"])
    other = [f"{key}={value}" for key, value in wanted.items() if used[key] != value]
    return f"the paper has {','.join(other)}" if other else ""


def _values(spec: str) -> dict[str, Value]:
    """Return every parameter of a spec, with its default if it is not given."""
    method = parse(spec)
    return {**method.parameters(), **method.values}


def _given(spec: str) -> dict[str, Value]:
    """Return the parameters that a spec names."""
    named = {pair.partition("=")[0].strip() for pair in spec.partition(":")[2].split(",")}
    return {key: value for key, value in parse(spec).values.items() if key in named}
