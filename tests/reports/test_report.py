"""The report says what a slow reference says, shows what a user wrote as text, and stands in one file."""

import base64
import dataclasses
import io
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image

import unhub
from tests import oracles, shapes
from unhub.data.relevance import as_relevance
from unhub.data.vectors import Vectors, as_vectors
from unhub.evaluation.inputs import EvaluationInputs
from unhub.reports import report_inputs
from unhub.reports.before_after import changed, examples, worst_hubs
from unhub.reports.findings import Findings
from unhub.reports.labels import Labels, Thumbnails
from unhub.reports.markup import Markup, join, tag
from unhub.reports.plots import raw_best, sample, scores_of, similarities
from unhub.reports.report import STEMS
from unhub.reports.report_inputs import ReportInputs, choose
from unhub.reports.verdict import strength_of, verdict_on

pytestmark = pytest.mark.once

DATA = shapes.generate(bank=1200)
EVIL = '<script>alert("x")</script> & <img src=x onerror=alert(1)>'
VOID = {"meta", "img", "wbr", "br", "link", "input"}
SECTIONS = [
    "Before and after",
    "Which items are returned",
    "The worst hubs",
    "The same queries, before and after",
    "How much the settings matter",
    "Similarities",
    "How this report was made",
]


class Reader(HTMLParser):
    """Reads a page: elements by name, texts, and whether every element that opens is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    def values(self, name: str) -> list[str]:
        return [value for _, key, value in self.attributes if key == name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def labelled(folder: Path) -> unhub.Report:
    """A report with labels, texts that try to be markup, and charts as files."""
    return unhub.report(
        DATA.items,
        DATA.bank,
        DATA.queries,
        DATA.relevance,
        path=folder / "labelled.html",
        figures=folder / "figures",
        item_texts=[f"picture {row} {EVIL}" for row in range(90)],
        query_texts={3: EVIL, 4: "four"},
        title=EVIL,
        command=f"unhub report {EVIL}",
    )


@pytest.fixture(scope="module")
def unlabelled(folder: Path) -> unhub.Report:
    """A report with nothing but vectors."""
    return unhub.report(DATA.items, DATA.bank, DATA.queries, path=folder / "unlabelled.html", threads=1)


@pytest.mark.parametrize("name", ["labelled", "unlabelled"])
def test_the_page_is_well_formed_and_asks_nothing_of_the_network(
    name: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    report: unhub.Report = request.getfixturevalue(name)
    html = (folder / f"{name}.html").read_text(encoding="utf-8")
    assert html == report.html
    page = Reader(html)
    assert [title for title in SECTIONS if title not in page.words] == []
    assert page.tags["script"] == page.tags["link"] == page.tags["iframe"] == 0
    assert not re.search(r"url\((?!#)|@import", html)
    linked = [value for key in ("href", "xlink:href", "src") for value in page.values(key)]
    assert linked
    assert all(value.startswith(("#", "data:")) for value in linked)
    assert any("default-src 'none'" in value for value in page.values("content"))


@pytest.mark.parametrize("name", ["labelled", "unlabelled"])
def test_every_chart_has_words_and_an_id_of_its_own(name: str, request: pytest.FixtureRequest) -> None:
    page = Reader(request.getfixturevalue(name).html)
    charts = [value for key, name, value in page.attributes if (key, name) == ("svg", "aria-label")]
    assert len(charts) == page.tags["svg"] == page.tags["figure"] == 6
    assert all(len(words) > 40 for words in charts)
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {value[1:] for value in page.values("xlink:href") if value.startswith("#")} <= set(ids)


@pytest.mark.parametrize("name", ["labelled", "unlabelled"])
def test_charts_are_in_the_colours_of_the_page(name: str, request: pytest.FixtureRequest) -> None:
    html = request.getfixturevalue(name).html
    used = set(re.findall(r"var\(--([\w-]+)\)", html))
    defined = set(re.findall(r"--([\w-]+):", html))
    assert {"raw", "fixed", "ink"} <= used <= defined
    assert "#d55e00" not in html  # the ink of raw in a file


def test_what_a_user_wrote_is_text(labelled: unhub.Report) -> None:
    page = Reader(labelled.html)
    assert "<script>alert" not in labelled.html
    assert page.tags["img"] == 0
    assert EVIL in page.words
    assert page.values("onerror") == []


def test_the_table_has_the_figures_of_evaluate(labelled: unhub.Report) -> None:
    specs = [name for name in labelled.findings.names if name != "raw"]
    fitted = unhub.fit(DATA.items, DATA.bank, method=specs)
    expected = unhub.evaluate(DATA.queries, DATA.items, DATA.relevance, fitted)
    words = Reader(labelled.html).words.replace("\N{NO-BREAK SPACE}", " ")
    for row in expected.rows:
        for value in row.values.values():
            assert f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]" in words
        for gain in row.gains.values():
            assert f"{gain.value:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}]" in words
        assert row.hubness is not None
        assert f"{row.hubness.skewness:.2f}" in words
    assert labelled.findings.rows[0].values["R@1"].value == pytest.approx(DATA.recall(DATA.scores, 1))


def test_the_share_of_the_worst_hubs_is_told_in_plain_words(labelled: unhub.Report) -> None:
    counts = oracles.k_occurrence(DATA.scores, 10)
    share = f"{counts.max() / counts.sum():.1%}"  # 1% of 90 items is one
    assert ["places taken by the item returned most", share] in [row[:2] for row in labelled.cells()[1]]
    assert "places taken by the item returned most" in Reader(labelled.html).words


def test_the_numbers_are_there_as_json(labelled: unhub.Report) -> None:
    told = json.loads(json.dumps(labelled.to_dict()))
    assert told["verdict"] == labelled.verdict.word
    assert len(told["sentences"]) == 3
    assert [one["name"] for one in told["rankings"]] == list(labelled.findings.names)
    assert [one["study"] for one in told["studies"]] == ["temperature", "bank-size"]


def test_items_that_ask_for_each_other_are_left_out_of_their_own_rankings(tmp_path: Path) -> None:
    alike = {row: [row, row ^ 1] for row in range(90)}
    gated = unhub.fit(DATA.items, DATA.bank, method="dis:tau=0.1")
    made = unhub.report(
        DATA.items,
        DATA.bank,
        DATA.items,
        alike,
        path=tmp_path / "page.html",
        corrections=gated,
        measures="R@1,MnR",
        exclude="self",
    )
    expected = unhub.evaluate(DATA.items, DATA.items, alike, gated, "R@1,MnR", exclude="self")
    for ours, row in zip(made.findings.rows, expected.rows, strict=True):
        assert ours.values == row.values
        assert ours.hubness is not None and row.hubness is not None
        assert ours.hubness.counts.tolist() == row.hubness.counts.tolist()
    for study in made.studies:
        assert study.raw is not None
        assert study.raw.value == expected["raw"].values["R@1"].value
    assert "The item with the query's own id is left out for every query." in made.notes
    assert "90 answers are left out with the excluded items." in made.notes
    # The gate looks at the raw best of all items, which is here the query itself.
    some = np.arange(0, 90, 7)
    assert raw_best(made.findings, some).tolist() == some.tolist()
    assert (made.findings.best[0][some, 0] != some).all()
    with pytest.raises(ValueError, match=r"exclude cannot be used .*; give the corrections to show"):
        unhub.report(DATA.items, DATA.bank, DATA.items, path=tmp_path / "other.html", exclude="self")


def test_a_place_that_no_item_is_left_for_shows_none(tmp_path: Path) -> None:
    few = DATA.items[:8]
    correction = unhub.fit(few, DATA.bank, method="nnn:k=8,alpha=1.5")
    out = [[row for row in range(8) if row not in (query, (query + 1) % 8)] for query in range(8)]
    made = unhub.report(few, DATA.bank, few, path=tmp_path / "page.html", corrections=correction, exclude=out)
    for example in examples(made.findings):
        assert len(example.before) == len(example.after) == 2


def test_the_verdict_is_three_sentences_of_the_figures(labelled: unhub.Report) -> None:
    counts = oracles.k_occurrence(DATA.scores, 10)
    hubs, effect, advice = labelled.verdict.sentences
    assert f"skewness {oracles.skewness(counts):.2f}" in hubs
    assert f"{(counts == 0).mean():.1%} of the items are never returned" in hubs
    skewness = (1 - 2 / 9) / (180 * 1 / 9 * 8 / 9) ** 0.5  # of a count that is binomial: ten places for ninety items
    assert f"chance alone would give {skewness:.2f}, 1.7% of the places and 0.0% never returned" in hubs
    assert f"R@1 from {DATA.recall(DATA.scores, 1):.2f}" in effect
    assert labelled.verdict.word == "gain"
    assert "use the correction" in advice
    words = Reader(labelled.html).words
    assert all(sentence in words for sentence in labelled.verdict.sentences)


def test_without_labels_the_page_says_so_and_claims_no_gain(unlabelled: unhub.Report) -> None:
    words = Reader(unlabelled.html).words
    assert unlabelled.verdict.word == "unknown"
    assert "No relevance was given" in words
    assert "R@1" not in words
    assert "gained" not in words
    assert unlabelled.studies[0].measure == "skewness@10"


def found(corrections: Any, relevance: Any = None, **more: Any) -> Findings:
    return Findings.of(EvaluationInputs.of(DATA.queries, DATA.items, corrections), relevance, **more)


@pytest.mark.parametrize(
    ("bias", "word", "advice"),
    [
        (np.random.default_rng(0).normal(size=90), "harm", "keep the raw ranking and look at the bank"),
        (np.random.default_rng(0).normal(scale=1e-3, size=90), "unsure", "may be chance"),
        (np.zeros(90), "unsure", "may be chance"),
    ],
)
def test_the_verdict_follows_the_interval_of_the_gain(bias: oracles.Floats, word: str, advice: str) -> None:
    fitted = cast("unhub.Bias", unhub.fit(DATA.items, DATA.bank, method="is"))
    findings = found(dataclasses.replace(fitted, arrays={"bias": bias}), DATA.relevance)
    verdict = verdict_on(findings)
    assert verdict.word == word
    assert advice in verdict.sentences[2]
    assert (findings.rows[1].gains["R@1"].high < 0) == (word == "harm")


def test_without_labels_a_correction_that_is_not_advised_is_not_recommended() -> None:
    fitted = unhub.fit(DATA.items, DATA.bank, method="sn")
    assert verdict_on(found(fitted), advised=True).word == "unknown"
    against = verdict_on(found(fitted), advised=False)
    assert against.word == "unsure"
    assert "Keep the raw ranking" in against.sentences[2]
    measured = verdict_on(found(fitted, DATA.relevance), advised=False)
    assert measured.word == "gain"  # labels know better
    assert "tuning without labels advises against a correction" in measured.sentences[2]
    assert "tuning" not in verdict_on(found(fitted, DATA.relevance)).sentences[2]


def test_the_correction_is_what_tune_chooses_without_labels(labelled: unhub.Report) -> None:
    tuning = unhub.tune(DATA.items, DATA.bank, DATA.queries)
    assert labelled.findings.shown == tuning.best.spec != "raw"
    assert tuning.reason in labelled.notes[-1]
    assert tuning.reason in Reader(labelled.html).words


def test_where_none_is_advised_a_robust_one_is_shown_and_the_reason_told() -> None:
    items, bank, queries = (as_vectors(one, "rows") for one in (DATA.items, DATA.bank[:30], DATA.queries[:20]))
    choice = choose(ReportInputs(items, bank, queries, None, None, "cosine", 0, 1))
    assert [one.spec for one in choice.corrections.values()] == ["nnn:k=30,alpha=0.5"]
    assert not choice.advised
    assert choice.reason == unhub.tune(DATA.items, DATA.bank[:30], DATA.queries[:20]).reason
    assert choice.note is not None
    assert choice.note.startswith("Tuning advises against a correction; nnn:k=30,alpha=0.5 is shown for comparison. ")
    assert "chosen" not in choice.note


def test_the_curves_use_answered_queries_and_a_part_of_what_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    items, bank, queries = (as_vectors(one, "rows") for one in (DATA.items, DATA.bank, DATA.queries))
    answered = ReportInputs(items, bank, queries, as_relevance([(3, 0), (7, 1)]), None, "cosine", 0, 1)
    assert answered.study_queries.ids.tolist() == [3, 7]
    assert answered.leaked == 0
    assert answered.study_bank is not None and len(answered.study_bank) == len(bank)
    monkeypatch.setattr(report_inputs, "MOST_STUDY_QUERIES", 9)
    monkeypatch.setattr(report_inputs, "MOST_STUDY_BANK_QUERIES", 11)
    drawn = [ReportInputs(items, bank, queries, None, None, "cosine", seed, 1) for seed in (0, 0, 1)]
    assert [len(one.study_queries) for one in drawn] == [9] * 3
    first, again, other = (cast("Vectors", one.study_bank).ids.tolist() for one in drawn)
    assert len(first) == 11
    assert first == sorted(first) == again != other


def test_the_hash_on_the_page_is_that_of_the_fit(labelled: unhub.Report) -> None:
    (fitted,) = unhub.fit(DATA.items, DATA.bank, method=[labelled.findings.shown])
    assert fitted.source.bank is not None
    assert f"hash {fitted.source.bank.digest:016x}" in Reader(labelled.html).words


def test_queries_that_stand_in_the_bank_are_counted_and_qualify_the_verdict(tmp_path: Path) -> None:
    bank = np.concatenate([DATA.bank[:500], DATA.queries[:100]])
    fitted = unhub.fit(DATA.items, bank, method="sn")
    report = unhub.report(DATA.items, bank, DATA.queries, DATA.relevance, path=tmp_path / "r.html", corrections=fitted)
    assert report.to_dict()["queries_in_bank"] == 100
    assert report.notes[0].startswith("100 of the 180 queries are also in the bank.")
    words = Reader(report.html).words
    assert report.notes[0] in words
    assert "100 queries are also in the bank Hubness is" in words  # beside the word of the verdict
    assert report.verdict.word == "gain"
    assert "so use the correction" not in report.verdict.sentences[2]
    assert "measure it on queries that are not in the bank before you use the correction" in report.verdict.sentences[2]
    assert "100 of the 180 queries are also in the bank" in report.verdict.sentences[2]
    unlabelled = verdict_on(found(fitted), leaked=7).sentences[2]
    assert unlabelled.endswith(
        "; 7 of the 180 queries are also in the bank, so a correction fitted on it looks too good."
    )


def test_raw_is_shown_alone_and_said_to_be(tmp_path: Path) -> None:
    raw = unhub.fit(DATA.items, DATA.bank, method="raw")
    report = unhub.report(
        DATA.items, DATA.bank, DATA.queries, DATA.relevance, path=tmp_path / "r.html", corrections=raw
    )
    page = Reader(report.html)
    assert (report.verdict.word, report.findings.names, report.to_dict()["shown"]) == ("none", ("raw",), "raw")
    assert "The correction given is raw, which changes nothing" in report.verdict.sentences[1]
    assert f"R@1 at {DATA.recall(DATA.scores, 1):.2f} [" in report.verdict.sentences[1]
    assert "corrected" not in page.words
    assert "before and after" not in page.words.lower()
    assert page.tags["figure"] == 5  # no scores once corrected
    assert "All figures are of the raw ranking." in page.words
    assert "fill raw" in page.values("class")
    assert "fill" not in page.values("class")
    unlabelled = unhub.report(DATA.items, DATA.bank, DATA.queries, path=tmp_path / "r.html", corrections=[raw])
    assert unlabelled.verdict.word == "none"
    Reader(unlabelled.html)


def test_a_correction_that_changes_nothing_leaves_skewness_as_it_is() -> None:
    raw = found({"same": unhub.fit(DATA.items, DATA.bank, method="raw")})
    assert f"leaves skewness at {raw.hubness[0].skewness:.2f}, with" in verdict_on(raw).sentences[1]


@pytest.mark.parametrize(("items", "words"), [(149, "the most returned item takes"), (150, "1% of the items take")])
def test_one_per_cent_of_few_items_is_one_item(items: int, words: str) -> None:
    rows = np.random.default_rng(0).normal(size=(items, 6))
    findings = Findings.of(EvaluationInputs.of(rows, rows, unhub.fit(rows, rows)), None)
    assert f": {words} {findings.hubness[0].figures.top_share:.1%} of" in verdict_on(findings).sentences[0]


def test_a_measure_that_falls_is_a_gain_when_it_does() -> None:
    findings = found(unhub.fit(DATA.items, DATA.bank, method="sn"), DATA.relevance, measures=["MnR", "R@1"])
    assert findings.rows[1].gains["MnR"].high < 0
    assert verdict_on(findings).word == "gain"


def test_strength_is_told_over_chance() -> None:
    assert [strength_of(one, 0.5) for one in (0.5, 0.99, 1.0, 1.99, 2.0)] == [
        "slight",
        "slight",
        "mild",
        "mild",
        "strong",
    ]


def test_the_worst_hubs_are_those_returned_most_often(labelled: unhub.Report) -> None:
    counts = oracles.k_occurrence(DATA.scores, 10)
    hubs = worst_hubs(labelled.findings)
    assert [hub.before for hub in hubs] == sorted(counts, reverse=True)[:8]
    ranked = oracles.ranking(DATA.scores)
    for hub in hubs:
        assert counts[hub.item] == hub.before
        first = [query for query in range(180) if ranked[query, 0] == hub.item and query // 2 != hub.item]
        pool = first or [query for query in range(180) if hub.item in ranked[query, :10] and query // 2 != hub.item]
        assert set(hub.queries) <= set(pool)
        assert len(hub.queries) == min(3, len(pool))


def test_examples_are_drawn_from_all_that_gained_and_all_that_lost(labelled: unhub.Report) -> None:
    names = labelled.findings.names
    (fitted,) = unhub.fit(DATA.items, DATA.bank, method=[names[1]])
    assert isinstance(fitted, unhub.Bias)
    truth = np.arange(180)[:, None] // 2
    before, after = (
        (oracles.ranking(scores) == truth).argmax(axis=1) + 1 for scores in (DATA.scores, DATA.scores - fitted.bias)
    )
    gained, lost = np.flatnonzero((after == 1) & (before > 1)), np.flatnonzero((after > 1) & (before == 1))  # as R@1
    for found, expected in zip(labelled.findings.moved(), (gained, lost), strict=True):
        assert found.tolist() == expected.tolist()
    shown = examples(labelled.findings)
    assert [one.word for one in shown] == ["gained"] * min(4, len(gained)) + ["lost"] * min(4, len(lost))
    assert all(one.ranks == (before[one.query], after[one.query]) for one in shown)
    words = Reader(labelled.html).words
    assert f"from the {len(gained)} queries that have their answer in first place now" in words
    assert f"{len(lost)} lost it" in words
    assert f"{180 - len(gained) - len(lost)} neither gained nor lost it" in words
    assert {one.query for seed in range(300) for one in examples(labelled.findings, seed)} == {*gained, *lost}


def test_without_labels_examples_are_queries_whose_items_changed(unlabelled: unhub.Report) -> None:
    shown = examples(unlabelled.findings)
    assert len(shown) == 4
    assert all(one.word == "changed" and set(one.before) != set(one.after) for one in shown)
    assert {one.query for one in shown} <= set(changed(unlabelled.findings).tolist())


def test_the_similarities_are_those_of_the_hubs_and_the_answers(labelled: unhub.Report) -> None:
    queries, columns, hubs = sample(labelled.findings, seed=0)
    assert columns[:hubs].tolist() == [hub.item for hub in worst_hubs(labelled.findings)]
    assert columns[hubs:].tolist() == [query // 2 for query in queries]
    assert len(queries) == len(set(columns[hubs:].tolist())) == 20
    # Every query may be drawn, those that a hub answers too.
    assert {query for seed in range(100) for query in sample(labelled.findings, seed)[0].tolist()} == set(range(180))
    assert "Rows are queries drawn at random, no two with the same answer" in Reader(labelled.html).words
    np.testing.assert_allclose(
        scores_of(labelled.findings, queries, columns), DATA.scores[np.ix_(queries, columns)], atol=1e-6
    )


def test_charts_are_written_as_files(labelled: unhub.Report, folder: Path) -> None:
    names = {"occurrences", "shares", "similarities-raw", "similarities-corrected", "temperature", "bank-size"}
    assert {path.name for path in (folder / "figures").iterdir()} == {
        f"{name}.{form}" for name in names for form in ("png", "svg")
    }
    assert {picture.name for picture in labelled.pictures} == names == set(STEMS)


@pytest.mark.parametrize("name", ["shares.png", "similarities-corrected.svg", "bank-size.png"])
def test_a_picture_of_someone_else_is_seen_before_anything_is_computed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=rf"^.*{name} exists and is not a file that unhub made; remove it first"):
        unhub.report(
            DATA.items,
            DATA.bank,
            DATA.queries,
            path=tmp_path / "r.html",
            figures=tmp_path,
            progress=lambda done, total: pytest.fail("it began"),
        )
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_pictures_are_put_into_the_page_and_missing_ones_are_said(tmp_path: Path) -> None:
    paths = [tmp_path / f"{row}.png" for row in range(90)]
    for row, path in enumerate(paths[:80]):
        Image.new("RGB", (400, 300), (row, 0, 200)).save(path)
    paths[80].write_text("not a picture")
    report = unhub.report(
        DATA.items,
        DATA.bank,
        DATA.queries,
        DATA.relevance[:100],
        path=tmp_path / "r.html",
        item_images=paths,
        item_texts=[f'"{row}"' for row in range(90)],
        corrections=unhub.fit(DATA.items, DATA.bank),
    )
    page = Reader(report.html)
    assert "80 queries have no answer among the items" in page.words
    sources = [value for key, name, value in page.attributes if (key, name) == ("img", "src")]
    assert len(sources) > 30
    assert all(source.startswith("data:image/jpeg;base64,") and len(source) < 10_000 for source in sources)
    assert all(re.fullmatch(r'"\d+"', value) for key, name, value in page.attributes if (key, name) == ("img", "alt"))
    missing = [note for note in report.notes if "could not be read" in note]
    assert (page.words.count("no picture") > 0) == bool(missing)
    assert all(note in page.words for note in missing)


@pytest.mark.parametrize("method", ["gc", "otn", "dis", "raw"])
def test_scores_are_drawn_of_every_kind_of_correction_that_has_them(method: str) -> None:
    findings = found({"mine": unhub.fit(DATA.items, DATA.bank, method=method)})
    assert findings.names == ("raw", "mine")
    drawn = [picture.name for picture in similarities(findings)]
    assert drawn == ["similarities-raw", "similarities-corrected"][: 2 if method in ("dis", "raw") else 1]


def test_a_gate_leaves_the_scores_of_other_queries_alone() -> None:
    fitted = cast("unhub.Bias", unhub.fit(DATA.items, DATA.bank, method="dis"))
    arrays = {"bias": np.arange(90.0), "active": np.zeros(90, np.bool_)}
    raw, corrected = similarities(found(dataclasses.replace(fitted, arrays=arrays)))
    # With the gate shut for all, nothing changes: the same items are returned, so the words agree.
    assert raw.words.replace("raw", "corrected") == corrected.words


def test_items_have_names_and_missing_pictures_are_no_reason_to_fail(tmp_path: Path) -> None:
    items = unhub.Vectors(np.array([f"n°{row}" for row in range(90)]), DATA.items)
    fitted = unhub.fit(items, DATA.bank, method="gc")
    report = unhub.report(
        items,
        DATA.bank,
        DATA.queries,
        path=tmp_path / "r.html",
        corrections=fitted,
        item_images={"n°0": tmp_path / "nothing.jpg"},
    )
    page = Reader(report.html)
    assert "item n°" in page.words
    assert "no picture" in page.words
    (note,) = (note for note in report.notes if "items shown have no picture" in note)
    bare, shown = (int(number) for number in re.findall(r"\d+", note))
    assert shown - 1 <= bare <= shown
    assert note in page.words
    assert page.tags["img"] == 0


@pytest.mark.parametrize(
    ("items", "bank", "queries", "labels"), [(1, 1, 1, 1), (1, 5, 3, 0), (3, 1, 2, 2), (12, 9, 1, 1)]
)
def test_small_data_makes_a_page_too(items: int, bank: int, queries: int, labels: int, tmp_path: Path) -> None:
    relevance = [(query, query % items) for query in range(labels)] or None
    report = unhub.report(
        DATA.items[:items], DATA.bank[:bank], DATA.queries[:queries], relevance, path=tmp_path / "r.html"
    )
    Reader(report.html)


def test_the_page_says_how_it_was_made(labelled: unhub.Report) -> None:
    words = Reader(labelled.html).words
    for fact in ("90 rows, 24 dimensions, hash ", "fitted on a bank of 1,200", "seed 0", "unhub ", "numpy ", "Python "):
        assert fact in words
    hashes = re.findall(r"hash ([0-9a-f]{16})", words)
    assert len(hashes) == len(set(hashes)) == 3


def test_the_same_data_makes_the_same_page_with_one_progress_for_all(unlabelled: unhub.Report, tmp_path: Path) -> None:
    seen: list[float] = []

    def progress(done: int, total: int) -> None:
        seen.append(done / total)

    again = unhub.report(DATA.items, DATA.bank, DATA.queries, path=tmp_path / "r.html", threads=2, progress=progress)
    first, second = (
        re.sub(r"in \d+\.\d+ s|\d{4}-\d\d-\d\dT[\d:]+Z", "", page) for page in (unlabelled.html, again.html)
    )
    assert first == second
    assert seen == sorted(seen)
    assert seen[-1] == 1


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"item_texts": ["one"]}, ValueError, "item_texts has 1 entries for 90 rows; give one per row"),
        ({"query_texts": "texts.txt"}, ValueError, "query_texts must be a list"),
        ({"item_images": 5}, ValueError, "item_images must be a list"),
        ({"item_images": {90: "a.jpg"}}, ValueError, "item_images names none of the ids, such as 0; name"),
        ({"item_texts": {}}, ValueError, "item_texts names none of the ids, such as 0; name"),
        ({"item_texts": list(range(90))}, ValueError, "item_texts must hold a text for each row, or None, got 0"),
        ({"item_images": {0: 1.5}}, ValueError, "item_images must hold a path for each row, or None, got 1.5"),
        (
            {"bank": DATA.queries},
            ValueError,
            "queries are all in the bank, so they cannot be used",
        ),
        ({"seed": -1}, ValueError, "seed must be a whole number of at least 0, got -1"),
        ({"figures": "no/such"}, FileNotFoundError, "no/such cannot be made: there is no folder no; create"),
        ({"corrections": []}, ValueError, "corrections is empty"),
        ({"measures": "recall"}, ValueError, "'recall' is unknown"),
        ({"relevance": [(0, 5000)]}, ValueError, "relevance names none of the 90 items as an answer to these queries"),
        ({"path": "nowhere/r.html"}, FileNotFoundError, "there is no folder"),
        ({"figures": __file__}, NotADirectoryError, "name a folder"),
    ],
)
def test_a_mistake_writes_nothing(
    more: dict[str, Any], error: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    old = '<!doctype html>\n<meta name="generator" content="unhub">\n'
    (tmp_path / "r.html").write_text(old)
    with pytest.raises(error, match=re.escape(message)):
        unhub.report(
            DATA.items, queries=DATA.queries, **{"bank": DATA.bank, "path": "r.html", "figures": "charts", **more}
        )
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    assert (tmp_path / "r.html").read_text() == old


def test_a_page_of_someone_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "r.html").write_text("<!doctype html>\n<title>My thesis</title>\n")
    with pytest.raises(ValueError, match=r"r\.html exists and is not a file that unhub made"):
        unhub.report(DATA.items, DATA.bank, DATA.queries, path=tmp_path / "r.html")
    assert "thesis" in (tmp_path / "r.html").read_text()


def test_the_page_comes_after_its_charts(tmp_path: Path) -> None:
    (tmp_path / "shares.svg").mkdir()
    with pytest.raises(IsADirectoryError):
        unhub.report(
            DATA.items[:9],
            DATA.bank,
            DATA.queries,
            path=tmp_path / "r.html",
            figures=tmp_path,
            corrections=unhub.fit(DATA.items[:9], DATA.bank),
        )
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_white(mode: str, tmp_path: Path) -> None:
    picture = Image.new("RGBA", (8, 8), (0, 0, 0, 0)).convert(mode)
    picture.save(tmp_path / "clear.png", transparency=0 if mode == "P" else None)
    source = Thumbnails().source(str(tmp_path / "clear.png"))
    assert source is not None
    with Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2]))) as small:
        assert small.convert("RGB").getpixel((4, 4)) == (255, 255, 255)


def test_every_rule_of_the_style_is_used(labelled: unhub.Report, tmp_path: Path) -> None:
    Image.new("RGB", (9, 9)).save(tmp_path / "0.png")
    pictured = unhub.report(
        DATA.items,
        DATA.bank,
        DATA.queries,
        DATA.relevance,
        path=tmp_path / "r.html",
        item_images=dict.fromkeys(range(90), tmp_path / "0.png"),
        corrections=unhub.fit(DATA.items, DATA.bank),
    )
    style = re.search(r"<style>(.*)</style>", labelled.html, re.DOTALL)
    assert style is not None
    named = set(re.findall(r"\.([a-z]+)\b(?=[^{}]*\{)", style[1]))
    used = {
        kind
        for report in (labelled, pictured)
        for value in Reader(report.html).values("class")
        for kind in value.split()
    }
    happen = {"harm", "unsure", "up", "down", "gain", "bad"}  # as the figures are
    assert named - used <= {*happen, "whole"}  # which the page of `unhub bench run` uses


def test_markup_escapes_text_and_attributes() -> None:
    assert tag("p", '<&"', Markup("<b>"), None, kind='a"b', hidden=None) == '<p class="a&quot;b">&lt;&amp;&quot;<b></p>'
    assert join("a<", tag("i")) == "a&lt;<i></i>"


def test_labels_fall_back_on_the_id() -> None:
    ids = np.array(["a", "b", "c"])
    labels = Labels("item", ids, {"a": "first", "b": ""}, {"c": Path("c.jpg")})
    assert [labels.text(row) for row in range(3)] == ["first", "item b", "item c"]
    assert [labels.picture(row) for row in range(3)] == [None, None, "c.jpg"]
    long = Labels("query", ids, ["word " * 100, "", "x"]).text(0)
    assert len(long) <= 240
    assert long.endswith("word…")
