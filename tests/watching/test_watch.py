"""Watch: figures of days by hand, alarms, edge cases, drift."""

import sys
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.watching.answered import EVEN, ITEMS, UNEVEN, day_log, drawn
from unhub.banks.distances import nearness, shift
from unhub.data.vectors import as_vectors
from unhub.service.kept.log_writer import LogWriter

pytestmark = pytest.mark.once


def test_a_day_by_hand() -> None:
    log = unhub.QueryLog.of(
        texts=["dog", "cat", "dog", "owl"],
        times=["2026-03-01T10", "2026-03-01T09", "2026-03-01T11", "2026-03-01T12"],
        returned=[["a", "b"], ["a", "c"], ["a", "b"], ["d", "a"]],
    )
    found = unhub.watch(log, items=["a", "b", "c", "d", "e", "f"])
    day = found.current
    assert (day.period, day.queries, day.logged, day.returned, day.k) == ("2026-03-01", 3, 4, 4, 2)
    assert day.coverage.value == pytest.approx(4 / 6)
    assert day.coverage.chance == pytest.approx(1 - (1 - 2 / 6) ** 3)  # each of 3 queries returns an item by 2 / 6
    assert (day.largest, day.traffic_largest) == (3, 4)
    assert (day.hubs[0].id, day.hubs[0].queries) == ("a", 3)
    counts = np.array([3, 1, 1, 1, 0, 0])
    apart = counts - counts.mean()
    assert day.skewness.value == pytest.approx((apart**3).mean() / (apart**2).mean() ** 1.5)
    share = 1 / 3
    assert day.skewness.chance == pytest.approx((1 - 2 * share) / np.sqrt(3 * share * (1 - share)))
    # With repeats the weights are 2, 1, 1: sum of cubes 10, of squares 6.
    one = (1 - 2 * share) / np.sqrt(share * (1 - share))
    assert day.traffic_skewness_chance == pytest.approx(one * 10 / 6**1.5)


def test_chance_of_traffic_is_what_random_answers_show() -> None:
    """Repeats alone make counts uneven, which must not look like hubs."""
    random = np.random.default_rng(0)
    asked = np.array([40, 20, 10, 5, 5, 2, *[1] * 60])
    seen = []
    for _ in range(400):
        lists = np.argsort(random.random((len(asked), ITEMS)), axis=1)[:, :3]
        counts = np.bincount(lists.ravel(), np.repeat(asked, 3), ITEMS)
        apart = counts - counts.mean()
        seen.append((apart**3).mean() / (apart**2).mean() ** 1.5)
    texts = [f"query {row}" for row, times in enumerate(asked.tolist()) for _ in range(times)]
    returned = [lists[row].tolist() for row, times in enumerate(asked.tolist()) for _ in range(times)]
    day = unhub.watch(unhub.QueryLog.of(texts=texts, returned=returned), items=ITEMS).current
    assert day.traffic_skewness_chance == pytest.approx(np.mean(seen), rel=0.1)
    assert day.traffic_skewness_chance > 3 * day.skewness.chance


def test_a_small_share_that_chance_gives_too_is_no_alarm() -> None:
    """2,000 queries find 2% of a million items at best."""
    random = np.random.default_rng(0)
    lists = random.integers(1_000_000, size=(200, 10)).tolist()
    found = unhub.watch(unhub.QueryLog.of(returned=lists), items=1_000_000, max_skewness=1.5, min_coverage=0.3)
    assert found.current.coverage.value < 0.003
    assert found.current.skewness.value > 20
    assert found.alarms == ()
    assert found.current.coverage.ratio == pytest.approx(1, abs=0.01)


def test_hubs_raise_an_alarm_and_few_queries_do_not() -> None:
    hubs = [[0, 1, row % ITEMS] for row in range(100)]
    found = unhub.watch(day_log({"2026-03-01": hubs}), items=ITEMS, max_skewness=1.5, min_coverage=0.95)
    assert found.current.judged
    assert [one.split(" is ")[0].split(" of ")[0] for one in found.alarms] == ["skewness", "90.7%"]
    assert unhub.watch(day_log({"2026-03-01": hubs}), items=ITEMS, max_skewness=20, min_coverage=0.1).alarms == ()
    few = unhub.watch(day_log({"2026-03-01": hubs[:49]}), items=ITEMS, max_skewness=1.5)
    assert few.alarms == ()
    assert "No period has 50 different queries, too few to judge: there can be no alarm." in few.sentences


def test_the_last_day_with_enough_queries_is_judged() -> None:
    hubs, few = [[0, 1, row % ITEMS] for row in range(100)], [[5, 6, 7]]
    found = unhub.watch(day_log({"2026-03-01": hubs, "2026-03-02": few}), items=ITEMS, max_skewness=1.5)
    assert found.current.period == "2026-03-01"
    assert len(found.alarms) == 1
    assert "2026-03-02 has 1 different query, too few to judge: 2026-03-01 is judged." in found.sentences


def test_days_are_in_utc_and_in_order(tmp_path: Path) -> None:
    lines = [
        ("2026-03-02T01:30:00+02:00", 3),  # still March 1 in UTC
        ("2026-03-01T23:30:00-05:00", 4),  # already March 2
        ("2026-03-01T05:00:00Z", 5),
        ("2026-03-02T08:00:00", 6),  # no zone: UTC
    ]
    text = "".join(f'{{"time": "{when}", "ids": [{item}]}}\n' for when, item in lines)
    (tmp_path / "log.jsonl").write_text(text)
    found = unhub.watch(tmp_path / "log.jsonl", items=10)
    assert [(one.period, sorted(hub.id for hub in one.hubs)) for one in found.periods] == [
        ("2026-03-01", ["3", "5"]),
        ("2026-03-02", ["4", "6"]),
    ]


def test_edges(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"empty\.jsonl: is a log without a query yet"):
        unhub.watch(tmp_path / "empty.jsonl", items=5)
    one = unhub.watch(unhub.QueryLog.of(returned=[[4]]), items=5).current
    assert (one.queries, one.coverage.low) == (1, None)
    assert [one.coverage.value, one.coverage.ratio] == pytest.approx([0.2, 1])
    same = unhub.watch(unhub.QueryLog.of(returned=[[7, 7, 7]] * 60), items=9).current
    assert (same.largest, same.k) == (60, 1)
    assert same.coverage.value == pytest.approx(1 / 9)
    with pytest.raises(ValueError, match="max_skewness needs the number of all items"):
        unhub.watch(unhub.QueryLog.of(returned=[[4]]), max_skewness=1)
    with pytest.raises(ValueError, match="min_coverage must be a share from 0 to 1, got 30"):
        unhub.watch(unhub.QueryLog.of(returned=[[4]]), items=5, min_coverage=30)
    unknown = unhub.watch(unhub.QueryLog.of(returned=[[4, 5]]))
    assert "How many items there are is not known" in unknown.notes[0]
    assert (unknown.current.items, unknown.current.items_known) == (2, False)


def test_a_correction_names_the_items_and_other_ids_are_noted() -> None:
    random = np.random.default_rng(0)
    gallery = unhub.Vectors(np.array([f"i{row}" for row in range(20)]), random.normal(size=(20, 4)))
    correction = unhub.fit(gallery, random.normal(size=(50, 4)), method="nnn", k=3)
    log = unhub.QueryLog.of(returned=[["i1", "i2"], ["i3", "gone"]])
    found = unhub.watch(log, correction=correction)
    assert (found.current.items, found.current.returned) == (20, 3)
    assert "1 answer names an id that is not among the 20 items" in found.notes[0]


def test_queries_that_drift_from_the_bank_are_told() -> None:
    random = np.random.default_rng(0)
    bank, asked = random.normal(size=(500, 8)), random.normal(size=(120, 8))
    lists = drawn(120, EVEN, 0)
    for queries, far in ((asked, False), (asked + 3, True)):
        log = unhub.QueryLog.of(vectors=queries, returned=lists)
        found = unhub.watch(log, items=ITEMS, bank=bank)
        assert found.current.drift is not None
        assert found.current.drift.far is far
        assert any(f"The queries are {'no longer' if far else 'still'} like the bank" in one for one in found.sentences)
    with pytest.raises(ValueError, match="bank has nothing to be compared with: the log holds no vectors"):
        unhub.watch(unhub.QueryLog.of(returned=lists), items=ITEMS, bank=bank)
    with pytest.raises(ValueError, match="bank has 5 dimensions, the logged vectors have 8"):
        unhub.watch(unhub.QueryLog.of(vectors=asked, returned=lists), items=ITEMS, bank=bank[:, :5])


def test_a_day_that_was_added_to_the_bank_is_noted_and_compared_with_all_of_it() -> None:
    random = np.random.default_rng(0)
    bank, asked = random.normal(size=(500, 8)), random.normal(size=(120, 8)) * [3, 3, 1, 1, 1, 1, 1, 1]
    days = [f"2026-03-0{1 + row // 60}" for row in range(120)]
    log = unhub.QueryLog.of(vectors=asked, returned=drawn(120, EVEN, 0), times=days)
    assert unhub.watch(log, items=ITEMS, bank=np.vstack([bank, asked[:30], asked[60:90]])).notes == ()  # half of each
    both = np.vstack([bank, asked])
    found = unhub.watch(log, items=ITEMS, bank=both)
    assert found.notes == (
        "2026-03-02: 60 of 60 different queries are in the bank too. If this period was added to the bank before, "
        "drift shows less: `unhub watch` first, then `unhub log add`.",
    )
    day = unhub.Vectors(np.arange(60), asked[60:].astype(np.float32))
    drift = found.current.drift
    assert drift is not None
    assert drift.shift == pytest.approx(shift(as_vectors(both, "bank"), day, "cosine").value)
    assert drift.nearness == pytest.approx(nearness(as_vectors(both, "bank"), day, "cosine").ratio)
    first = unhub.watch(log, items=ITEMS, bank=np.vstack([bank, asked[:31]]))
    assert [note[:51] for note in first.notes] == ["2026-03-01: 31 of 60 different queries are in the b"]


def test_a_note_of_what_the_bank_holds_is_of_all_of_a_large_bank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unhub.watching.drifting.MOST_BANK_QUERIES", 100)
    random = np.random.default_rng(0)
    bank = random.normal(size=(500, 8))
    log = unhub.QueryLog.of(vectors=bank[:60], returned=drawn(60, EVEN, 0))
    assert unhub.watch(log, items=ITEMS, bank=bank).notes[0].startswith("60 of 60 different queries are in the bank")


def test_queries_that_are_asked_every_day_are_no_drift() -> None:
    """Popular queries point elsewhere than rare ones, and the mix is the same every day."""
    random = np.random.default_rng(0)
    head = random.normal(size=(600, 16)) + 2 * np.eye(16)[0]

    def day() -> np.ndarray:
        tail = random.normal(size=(30, 16)) + 2 * np.eye(16)[0] + 1.5 * np.eye(16)[1]
        return np.vstack([head[random.permutation(600)[:570]], tail])

    bank = np.unique(np.vstack([day() for _ in range(10)]), axis=0)
    log = unhub.QueryLog.of(vectors=day(), returned=drawn(600, EVEN, 0))
    found = unhub.watch(log, items=ITEMS, bank=bank)
    assert found.current.drift is not None
    assert not found.current.drift.far
    assert found.notes[0].startswith("570 of 600 different queries are in the bank too.")


def test_vectors_of_zeros_are_left_out_of_drift_and_noted(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    bank, asked = random.normal(size=(500, 8)), random.normal(size=(123, 8))
    texts, lists, history = [f"query {row}" for row in range(123)], drawn(123, EVEN, 0), tmp_path / "history.jsonl"
    sound = unhub.QueryLog.of(texts=texts[3:], vectors=asked[3:], returned=lists[3:])
    wanted = unhub.watch(sound, items=ITEMS, bank=bank).current.drift
    asked[:3] = 0
    log = unhub.QueryLog.of(texts=texts, vectors=asked, returned=lists)
    found = unhub.watch(log, items=ITEMS, bank=bank, history=history)
    assert found.current.queries == 123
    assert found.current.drift == wanted
    assert found.notes == (
        "Compared with the bank without 3 of 123 different queries, whose vectors cannot be compared (zeros, or not "
        "finite).",
    )
    assert unhub.watch(log, items=ITEMS, history=history).new == ()  # the line can be read
    asked[:80] = 0
    few = unhub.watch(log, items=ITEMS, bank=bank)
    assert few.current.drift is None
    assert "too few are left, 50 are needed" in few.notes[0]
    assert unhub.watch(log, items=ITEMS, bank=bank, similarity="dot").current.drift is not None  # zeros are vectors
    bank[7] = 0
    with pytest.raises(ValueError, match=r"bank has 1 vectors that cannot be compared \(zeros, or not finite\)"):
        unhub.watch(log, items=ITEMS, bank=bank)


def test_days_that_the_history_knows_are_compared_with_the_bank_of_today(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    bank, asked = random.normal(size=(500, 8)), random.normal(size=(120, 8))
    log = unhub.QueryLog.of(vectors=asked, returned=drawn(120, EVEN, 0), times=["2026-03-01"] * 120)
    history = tmp_path / "history.jsonl"
    assert unhub.watch(log, items=ITEMS, history=history).current.drift is None
    kept = history.read_bytes()
    for past, far in ((bank, False), (bank + 3, True)):
        found = unhub.watch(log, items=ITEMS, history=history, bank=past)
        assert not found.new
        assert found.current.drift is not None
        assert found.current.drift.far is far
    assert history.read_bytes() == kept


def test_the_log_of_a_service_is_watched_with_its_vectors(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    writer = LogWriter(tmp_path / "log", 4)
    rows = random.normal(size=(60, 4)).astype(np.float32)
    for row, returned in zip([*rows, rows[0]], [*drawn(60, EVEN, 0), [9, 8, 7]], strict=True):
        writer.append(row[None], returned, "v1")
    writer.close()
    found = unhub.watch(tmp_path / "log", items=ITEMS, bank=rows)
    assert (found.current.logged, found.current.queries, found.current.told_by) == (61, 60, "vector")
    assert found.current.drift is not None


def test_the_file_for_prometheus_is_read_by_its_own_parser(tmp_path: Path) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    path = tmp_path / "unhub.prom"
    log = day_log({"2026-03-01": drawn(100, UNEVEN, 0)})
    found = unhub.watch(log, items=ITEMS, prometheus=path, max_skewness=0.1)
    families = {one.name: one for one in parser.text_string_to_metric_families(path.read_text())}
    values = {(one.name, *one.labels.values()): one.value for family in families.values() for one in family.samples}
    assert values["unhub_watch_figure", "skewness", "observed"] == found.current.skewness.value
    assert values["unhub_watch_figure", "coverage", "chance"] == found.current.coverage.chance
    assert values["unhub_watch_alarm",] == 1
    assert values["unhub_watch_period_timestamp_seconds",] == 1772323200  # 2026-03-01T00:00:00Z
    assert {one.type for one in families.values()} == {"gauge"}
    assert families["unhub_watch_limit"].documentation == "Limits beyond which there is an alarm"
    unhub.watch(log, items=ITEMS, prometheus=path)  # ours is replaced
    path.write_text("# another program's\n")
    with pytest.raises(ValueError, match=r"unhub\.prom exists and is not a file that unhub made"):
        unhub.watch(log, items=ITEMS, prometheus=path)
    assert path.read_text() == "# another program's\n"


def test_the_page_loads_nothing_and_escapes_ids(tmp_path: Path) -> None:
    log = unhub.QueryLog.of(returned=[["<b>x</b>", f"i{row}"] for row in range(60)])
    unhub.watch(log, items=100, path=tmp_path / "page.html", max_skewness=1)
    page = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "<b>x" not in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/", "")
    assert page.count("<svg") == 2
    for name in ("watch.png", "watch.svg"):
        unhub.watch(log, items=100, path=tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    with pytest.raises(ValueError, match=r"path is .*page\.pdf; end it in \.html for a page"):
        unhub.watch(log, items=100, path=tmp_path / "page.pdf")


def test_without_matplotlib_the_history_is_written_before_the_page_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    log = unhub.QueryLog.of(texts=["dog"], times=["2026-03-01"], returned=[["a", "b"]])
    history, gauges, page = tmp_path / "h.jsonl", tmp_path / "w.prom", tmp_path / "w.html"
    with pytest.raises(ImportError, match=r"needs matplotlib: .*plot"):
        unhub.watch(log, items=3, history=history, prometheus=gauges, path=page)
    assert len(history.read_text().splitlines()) == 1
    assert gauges.exists()
    assert not page.exists()
    with pytest.raises(ImportError, match="needs matplotlib"):
        unhub.watch("no.jsonl", items=3, path=page)  # nothing would be kept, so nothing is read
