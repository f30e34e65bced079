"""`unhub eval` and `unhub hubs` print what the library returns, fit the terminal, and say what is wrong in one line."""

import csv
import dataclasses
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np
import pytest

import unhub
from tests.command import BANK, ITEMS, NAMES, fail, program, succeed, write_fitted, write_inputs
from unhub.cli.evaluate import evaluate as eval_command
from unhub.cli.folding import folded, width_of
from unhub.cli.hubs import FIGURES
from unhub.evaluation.evaluate import DEFAULT_MEASURES
from unhub.evaluation.hubness import Figures

pytestmark = pytest.mark.once

ASKED = np.random.default_rng(1).normal(size=(60, 8)).astype(np.float32)
QUERY_NAMES = [f"query {row}" for row in range(60)]
TRUTH = {QUERY_NAMES[row]: NAMES[row % 40] for row in range(55)}
GALLERY = unhub.Vectors(np.array(NAMES), ITEMS)
QUERIES = unhub.Vectors(np.array(QUERY_NAMES), ASKED)

BOTH = ("--items", "items.npy", "--item-ids", "names.txt", "--queries", "asked.npy", "--query-ids", "queries.txt")
EVAL = ("eval", *BOTH, "--relevance", "truth.csv")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with items, queries, a bank, a correction, relevance and a run."""
    path = write_fitted(write_inputs(tmp_path_factory.mktemp("eval")))
    np.save(path / "asked.npy", ASKED)
    (path / "queries.txt").write_text("\n".join(QUERY_NAMES))
    with (path / "truth.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("query_id", "item_id"), *TRUTH.items()])
    (path / "numbers.qrels").write_text("".join(f"{row} 0 {row % 40} 1\n" for row in range(55)))
    (path / "theirs.run").write_text("".join(f"{row} Q0 {row % 40} 1 0.5 tag\n" for row in range(30)))
    (path / "wrong.csv").write_text("query_ids,item_ids\n1,2\n")
    (path / "said.csv").write_text("id,text\n" + "".join(f"{name},text of [b]{name}\n" for name in NAMES))
    return path


def test_eval_prints_the_numbers_of_the_library(folder: Path) -> None:
    methods = ("--method", "is:tau=0.1", "--method", "csls", "--bank", "bank.npy")
    printed = json.loads(succeed(folder, *EVAL, "--correction", "fitted.unhub", *methods, "--json"))
    saved = unhub.load(folder / "fitted.unhub")
    fitted = unhub.fit(GALLERY, BANK, method=["is:tau=0.1", "csls"])
    corrections = {"fitted.unhub": saved, **{one.spec: one for one in fitted}}
    direct = unhub.evaluate(QUERIES, GALLERY, TRUTH, corrections)
    assert printed.pop("corrections") == {"fitted.unhub": saved.spec}
    assert printed == json.loads(json.dumps(direct.to_dict()))
    assert [one["name"] for one in printed["rankings"]] == ["raw", *corrections]
    assert printed["unanswered"] == 5


def test_ranks_replace_a_table_only_on_request(folder: Path) -> None:
    texts = "query_id,raw,clean\n1,A dog!,a dog\n2,A cat?,a cat\n"
    (folder / "texts.csv").write_text(texts)
    assert "texts.csv exists and is not a file that unhub saved; give --overwrite" in fail(
        folder, *EVAL, "-o", "texts.csv"
    )
    assert (folder / "texts.csv").read_text() == texts
    for _ in range(2):
        succeed(folder, *EVAL, "-o", "texts.csv", "--overwrite")
    assert (folder / "texts.csv").read_text().startswith("query_id,raw\n")


def test_eval_prints_the_whole_table_into_a_pipe_and_writes_the_ranks(folder: Path) -> None:
    printed = succeed(folder, *EVAL, "--correction", "fitted.unhub", "--measures", "R@1,mAP", "-o", "ranks.csv")
    fitted = {"fitted.unhub": unhub.load(folder / "fitted.unhub")}
    direct = unhub.evaluate(QUERIES, GALLERY, TRUTH, fitted, "R@1,mAP")
    table, _, notes = str(direct).rpartition("\n")
    legend = "In brackets: 95% intervals, by bootstrap. * is the best by R@1.\nfitted.unhub is nnn:k=5,alpha=0.75."
    assert printed == f"{table}\n{legend}\n{notes}\n"
    with (folder / "ranks.csv").open(newline="") as file:
        heads, *rows = csv.reader(file)
    assert heads == ["query_id", *(row.name for row in direct.rows)]
    assert [row[0] for row in rows] == list(TRUTH)
    np.testing.assert_allclose([[float(cell) for cell in row[1:]] for row in rows], direct.ranks.T)
    assert succeed(folder, *EVAL, "--correction", "fitted.unhub", "--measures", "R@1,mAP", "--quiet") == f"{table}\n"


def test_eval_of_nothing_but_raw_works_with_row_numbers_and_a_run(folder: Path) -> None:
    plain = ("eval", "--items", "items.npy", "--queries", "asked.npy", "--relevance", "numbers.qrels")
    printed = json.loads(succeed(folder, *plain, "--run", "theirs.run", "--json"))
    raw, theirs = printed["rankings"]
    direct = unhub.evaluate(ASKED, ITEMS, {row: row % 40 for row in range(55)})
    assert raw["values"]["MnR"]["value"] == direct["raw"].values["MnR"].value
    assert theirs["name"] == "theirs.run"
    assert theirs["values"]["R@1"]["value"] == pytest.approx(100 * 30 / 55)
    assert any("theirs.run did not return 25 of the 55 answers" in note for note in printed["notes"])


def test_eval_reversed_asks_with_the_items(folder: Path) -> None:
    methods = ("--method", "nnn:k=3", "--bank", "queries.npy", "--similarity", "dot")
    printed = json.loads(succeed(folder, *EVAL, "--reverse", *methods, "--json"))
    past = np.load(folder / "queries.npy")
    fitted = unhub.fit(QUERIES, past, method=["nnn:k=3"], similarity="dot")
    backwards = unhub.Relevance(list(TRUTH.values()), list(TRUTH))
    direct = unhub.evaluate(GALLERY, QUERIES, backwards, fitted)
    assert printed == json.loads(json.dumps({**direct.to_dict(), "corrections": {}}))
    assert printed["items"] == 60


def test_eval_reversed_blames_the_option_that_was_given(folder: Path) -> None:
    said = fail(folder, *EVAL, "--reverse", "--correction", "fitted.unhub")
    asked = EVAL[EVAL.index("--queries") + 1]
    assert said.startswith("--correction: fitted.unhub was not fitted on --queries, which --reverse searches; fit one")
    assert (
        f"with `unhub fit --items {asked}` and a --bank of past items (items has 60 of 60 rows that are not in" in said
    )
    for name, option in (("items", "--items"), (Path(asked).stem, "--queries")):
        rows = np.load(folder / f"{name}.npy")
        np.save(folder / "zero.npy", np.where(np.arange(len(rows))[:, None] == 2, 0, rows))
        said = fail(folder, *EVAL, "--reverse", option, "zero.npy")
        role = {"--items": "queries", "--queries": "items"}[option]
        assert said.startswith(f"{option} (with --reverse, the {role}) has only zeros in row 2, which has no direction")


def test_eval_reversed_takes_a_correction_of_the_queries(folder: Path) -> None:
    past = np.load(folder / "queries.npy")
    unhub.save(unhub.fit(QUERIES, past, method="nnn:k=3"), folder / "turned.unhub")
    shown = succeed(folder, *EVAL, "--reverse", "--correction", "turned.unhub")
    backwards = unhub.Relevance(list(TRUTH.values()), list(TRUTH))
    direct = unhub.evaluate(GALLERY, QUERIES, backwards, {"turned.unhub": unhub.load(folder / "turned.unhub")})
    assert shown.startswith(str(direct).removesuffix("\n".join(direct.notes)))
    lines = shown.splitlines()
    assert lines[len(lines) - len(direct.notes) :] == [*direct.notes]


THEMSELVES = ("--items", "items.npy", "--queries", "items.npy")


def test_items_that_ask_for_each_other_are_left_out_of_their_own_rankings(folder: Path) -> None:
    (folder / "pairs.csv").write_text(
        "query_id,item_id\n" + "".join(f"{row},{row}\n{row},{row ^ 1}\n" for row in range(40))
    )
    asked = ("eval", *THEMSELVES, "--relevance", "pairs.csv", "--exclude-self")
    pairs = {row: [row, row ^ 1] for row in range(40)}
    expected = unhub.evaluate(ITEMS, ITEMS, pairs, exclude="self").to_dict()
    assert json.loads(succeed(folder, *asked, "--json")) == {**expected, "corrections": {}}
    assert "The item with the query's own id is left out for every query.\n40 answers are left out" in succeed(
        folder, *asked
    )
    assert (
        "With --reverse, --queries are searched and --items ask: below, items are what is searched.\n"
        "The item with the query's own id is left out for every query.\n"
    ) in succeed(folder, *asked, "--reverse")
    over = json.loads(
        succeed(folder, *asked, "--bank", "bank.npy", "--method", "is", "--bank-size", "30", "--seeds", "2", "--json")
    )
    assert (
        over["rankings"][0]["values"]["MnR"]["mean"]
        == unhub.evaluate(ITEMS, ITEMS, pairs, exclude="self")["raw"].values["MnR"].value
    )
    words = fail(folder, *EVAL, "--exclude-self")
    assert words == (
        "--exclude-self cannot leave out the item with the query's own id, since no item has the id of a query: "
        "the queries have 'query 0', the items have '[red] 0.jpg'; give ids for both"
    )


def test_hubs_of_items_that_ask_for_each_other(folder: Path) -> None:
    asked = ("hubs", *THEMSELVES, "-k", "3", "--exclude-self")
    assert (
        json.loads(succeed(folder, *asked, "--json")) == unhub.worst_hubs(ITEMS, ITEMS, k=3, exclude="self").to_dict()
    )
    assert "is left out for every query." in succeed(folder, *asked)


def test_eval_with_a_bank_alone_fits_the_default_method(folder: Path) -> None:
    default = succeed(folder, *EVAL, "--bank", "bank.npy", "--json")
    assert default == succeed(folder, *EVAL, "--bank", "bank.npy", "--method", "is", "--json")
    assert [one["name"] for one in json.loads(default)["rankings"]] == ["raw", unhub.fit(GALLERY, BANK).spec]


def test_eval_over_seeds_prints_the_spread_of_the_library(folder: Path) -> None:
    methods = ("--method", "is:tau=0.1", "--bank", "bank.npy", "--bank-size", "20", "--seeds", "2")
    printed = json.loads(succeed(folder, *EVAL, *methods, "--json"))
    direct = unhub.over_seeds(QUERIES, GALLERY, TRUTH, BANK, ["is:tau=0.1"], 20, 2)
    assert printed == json.loads(json.dumps({**direct.to_dict(), "corrections": {}}))
    assert re.search(r"^is:tau=0\.1( \*)? +\d+\.\d\d ± \d+\.\d\d ", succeed(folder, *EVAL, *methods), re.MULTILINE)


def test_eval_over_seeds_without_a_size_takes_half_of_the_bank_and_says_so(folder: Path) -> None:
    methods = ("--method", "is:tau=0.1", "--bank", "bank.npy", "--seeds", "2")
    printed = json.loads(succeed(folder, *EVAL, *methods, "--json"))
    direct = unhub.over_seeds(QUERIES, GALLERY, TRUTH, BANK, ["is:tau=0.1"], 45, 2)
    assert printed == json.loads(json.dumps({**direct.to_dict(), "corrections": {}}))
    assert "--bank-size is not given: 45 queries are half of the bank." in succeed(folder, *EVAL, *methods)


def test_eval_over_parts_draws_three_by_default(folder: Path) -> None:
    methods = ("--method", "is:tau=0.1", "--bank", "bank.npy", "--bank-size", "20")
    assert json.loads(succeed(folder, *EVAL, *methods, "--json"))["seeds"] == [0, 1, 2]


def test_the_measures_of_the_command_are_those_of_the_library() -> None:
    default = eval_command.__defaults__
    assert default is not None
    assert ",".join(DEFAULT_MEASURES) in default


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--relevance", "none.csv"), r"--relevance: .*none\.csv"),
        (("--relevance", "names.txt"), r"--relevance: names\.txt: line 1 has 2 fields"),
        (
            ("--relevance", "numbers.qrels"),
            "^--relevance names none of the 60 queries: it has '0', the queries have 'query 0'; "
            "give the queries the ids",
        ),
        (("--measures", "R@1,nope"), "^--measures 'nope' is unknown; the measures are R@k, GM, MdR"),
        (("--bank", "bank.npy", "--bank-items", "bank.npy"), "--bank-items has no effect; there is no --method to fit"),
        (("--bank-items", "bank.npy"), "--bank-items has no effect; there is no --method to fit"),
        (("--bank-size", "10"), "--bank-size has no effect; there is no --bank to draw from"),
        (("--seeds", "3"), "--seeds has no effect; there is no --bank to draw from"),
        (("--method", "is", "--seeds", "3"), "--seeds has no effect; there is no --bank to draw from"),
        (("--relevance", "wrong.csv"), r"has columns \['query_ids', 'item_ids'\]; `query_id` is required$"),
        (("--method", "is"), "^--bank must be given for 'is'; give the embeddings of past queries$"),
        (("--method", "is", "--bank-size", "5"), "--bank-size has no effect; there is no --bank"),
        (
            ("--method", "is", "--bank", "bank.npy", "--bank-size", "91"),
            "^--bank-size is 91, the bank has 90 queries; give fewer$",
        ),
        (("--method", "nope", "--bank", "bank.npy"), "^--method 'nope' is unknown; the methods are raw, is, "),
        (("--run", "truth.csv"), r"--run: truth\.csv: hits do not say which items were returned"),
        (
            ("--run", "theirs.run"),
            r"^theirs\.run answers none of the 60 queries: it has 0, the queries have 'query 0'; "
            "give the queries the ids",
        ),
        (("--correction", "items.npy"), r"--correction: items\.npy: truncated"),
        (("--correction", "fitted.unhub", "--similarity", "dot"), "fitted under cosine similarity, not under dot"),
        (("--query-ids", "names.txt"), r"--query-ids: names\.txt has 40 ids, 60 are needed; give one id for each$"),
        (("-o", "truth.csv"), r"--output: truth\.csv is an input of this command"),
        (("-o", "nowhere/ranks.csv"), "--output: .*there is no folder"),
        (("--seeds", "1"), "^--seeds must be a whole number of at least 2, got 1$"),
    ],
)
def test_a_mistake_in_eval_is_one_line(folder: Path, change: tuple[str, ...], words: str) -> None:
    assert re.search(words, fail(folder, *EVAL, *change))


def test_commands_without_arguments_say_what_is_missing(folder: Path) -> None:
    assert "--items" in fail(folder, "eval", run=program)
    assert "--items" in fail(folder, "hubs", run=program)


def test_vectors_without_the_ids_of_the_table_are_a_mistake(folder: Path) -> None:
    line = fail(folder, "eval", "--items", "items.npy", "--queries", "asked.npy", "--relevance", "truth.csv")
    assert "query id 'query 0', but query ids are integers here" in line


def test_hubs_prints_the_numbers_of_the_library(folder: Path) -> None:
    options = ("--correction", "fitted.unhub", "-k", "3", "--count", "2")
    printed = json.loads(succeed(folder, "hubs", *BOTH, *options, "--item-texts", "said.csv", "--json"))
    direct = unhub.worst_hubs(QUERIES, GALLERY, unhub.load(folder / "fitted.unhub"), 3, 2)
    texts = [f"text of [b]{hub.id}" for hub in direct.hubs]
    assert printed == json.loads(json.dumps({**direct.to_dict(), "item_texts": texts}))


def test_hubs_shows_every_figure_and_the_worst_with_texts(folder: Path) -> None:
    options = ("--correction", "fitted.unhub", "-k", "3", "--count", "2", "--examples", "1")
    printed = succeed(folder, "hubs", *BOTH, *options, "--item-texts", "said.csv", "--query-texts", "queries.txt")
    direct = unhub.worst_hubs(QUERIES, GALLERY, unhub.load(folder / "fitted.unhub"), 3, 2, examples=1)
    assert list(FIGURES) == [field.name for field in dataclasses.fields(Figures)]
    for figure in FIGURES:
        assert re.search(rf"^{figure.replace('_', ' ')} +\S+ +\S+ +\S+  \w+", printed, re.MULTILINE)
    chance = direct.before.chance
    assert re.search(rf"^skewness .* {chance.skewness:.2f}  how", printed, re.MULTILINE)
    assert re.search(rf"^largest .* {chance.largest:.1f}  queries", printed, re.MULTILINE)
    assert "\nchance: what each figure would be if queries returned items at random.\n" in printed
    assert re.search(r"^top share .*  places taken by the item returned most$", printed, re.MULTILINE)
    hub = direct.hubs[0]
    query = QUERY_NAMES[hub.queries[0]]
    fate = "still" if hub.still[0] else "no longer"
    assert f"  1. {hub.id}  text of [b]{hub.id}\n" in printed
    assert f"     returned for {hub.before} queries, {hub.after} once corrected\n" in printed
    assert f"       ({fate}) {query}  {query}\n" in printed
    alone = succeed(folder, "hubs", *BOTH, "-k", "3", "--count", "1", "--quiet")
    assert alone.splitlines()[:2] == [f"  1. {hub.id}", f"     returned for {hub.before} queries"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--item-texts", "queries.txt"), r"--item-texts: queries\.txt: holds 60 texts, 40 are needed"),
        (("--query-texts", "said.csv"), r"--query-texts: said\.csv has no text for 60 of the ids"),
        (("--query-texts", "items.npy"), r"--query-texts: items\.npy: texts are read from \.txt"),
        (("-k", "0"), "^-k must be a whole number of at least 1, got 0$"),
        (("--correction", "none.unhub"), r"--correction: .*none\.unhub"),
    ],
)
def test_a_mistake_in_hubs_is_one_line(folder: Path, change: tuple[str, ...], words: str) -> None:
    assert re.search(words, fail(folder, "hubs", *BOTH, *change))


def on_terminal(folder: Path, width: int, *arguments: str) -> list[str]:
    """Run a command with stdout a terminal so wide, and return the lines it shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "unhub", *arguments]
    child = subprocess.Popen(command, cwd=folder, stdout=theirs, stderr=subprocess.PIPE, env=env)
    os.close(theirs)
    shown = b""
    try:
        while more := os.read(ours, 1 << 16):
            shown += more
    except OSError:  # how a terminal says that the other side is gone
        pass
    finally:
        os.close(ours)
    _, errors = child.communicate(timeout=60)
    assert (child.returncode, errors) == (0, b"")
    return shown.decode().splitlines()


def test_on_a_narrow_terminal_the_values_and_the_gain_stand_in_two_tables(folder: Path) -> None:
    lines = on_terminal(folder, 80, *EVAL, "--correction", "fitted.unhub", "--quiet")
    assert max(map(len, lines)) <= 80
    heads = [line.split() for line in lines if line.startswith("ranking")]
    assert heads[0][: len(DEFAULT_MEASURES) + 1] == ["ranking", *DEFAULT_MEASURES]
    shown = " ".join(word for head in heads for word in head[1:])
    assert shown == f"{' '.join(DEFAULT_MEASURES)} R@1 interval gain in R@1 p skewness@10"
    assert len(heads) == 2
    whole = on_terminal(folder, 300, *EVAL, "--correction", "fitted.unhub", "--quiet")
    direct = unhub.evaluate(QUERIES, GALLERY, TRUTH, {"fitted.unhub": unhub.load(folder / "fitted.unhub")})
    assert whole == str(direct).splitlines()[:-1]  # all but the note


def test_what_a_fit_wrote_and_the_methods_keep_to_a_narrow_terminal(folder: Path) -> None:
    fit = ("fit", "--items", "items.npy", "--bank", "bank.npy", "--method", "nnn", "-o", "short.unhub")
    for arguments in (fit, ("info", "short.unhub"), ("methods",)):
        lines = on_terminal(folder, 60, *arguments)
        assert max(map(len, lines)) <= 60
        whole = " ".join(word for line in lines for word in line.split())
        assert "nnn" in whole
    heads = [line.split() for line in lines if line.startswith("name")]
    assert heads == [["name", "kind", "needs", "parameters"], ["name", "what", "it", "is"]]


def test_long_texts_are_cut_on_a_terminal(folder: Path) -> None:
    options = ("hubs", *BOTH, "--count", "1", "--item-texts", "said.csv", "--quiet")
    shown = on_terminal(folder, 24, *options)
    assert max(map(len, shown)) == 24
    (hub,) = unhub.worst_hubs(QUERIES, GALLERY, count=1).hubs
    assert shown[0] == f"  1. {hub.id}  text of [b]{hub.id}"[:23] + "…"


def test_the_figures_of_hubs_keep_to_a_narrow_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = succeed(folder, "hubs", *BOTH, "--correction", "fitted.unhub", "--count", "1")
    monkeypatch.setattr("unhub.cli.folding.terminal_width", lambda: 60)
    narrow = succeed(folder, "hubs", *BOTH, "--correction", "fitted.unhub", "--count", "1")
    assert max(map(len, whole.splitlines())) > 60 >= max(map(len, narrow.splitlines()))
    assert sorted(whole.replace("─", "").split()) == sorted(narrow.replace("─", "").split())


def test_a_table_is_folded_into_parts_that_hold_every_column_once() -> None:
    table = (["name", "a", "bb", "ccc"], [["one", "1", "22222", "3"], ["two", "4", "5", "6"]])
    parts = list(folded(table, 12))
    assert [part[0] for part in parts] == [["name", "a"], ["name", "bb"], ["name", "ccc"]]
    assert parts[1][1] == [["one", "22222"], ["two", "5"]]
    assert list(folded(table, width_of(table))) == [table]
    assert [part[0] for part in folded(table, width_of(table) - 1)] == [["name", "a", "bb"], ["name", "ccc"]]
    assert len(list(folded(table, 1))) == 3
