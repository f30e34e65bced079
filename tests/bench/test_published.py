"""The published figures: a sample written down by hand from the papers, both ways, and what must hold for all."""

import itertools
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from unhub.bench.published import CITED, COLUMNS, FILE, Figure, published, read_published
from unhub.combine import COMBINATIONS
from unhub.errors import ArgumentError
from unhub.evaluation.measures import MEASURES
from unhub.methods import METHODS, parse
from unhub.model import HEADS

pytestmark = pytest.mark.once

# Read off the papers' text by eye: paper, table, data set, model, direction, method, bank, queries, measure = value.
SAMPLE = """
qbnorm | 1 | msrvtt | TT-CE+ | t2v | raw | | 1 | R@1 = 14.9
qbnorm | 1 | msrvtt | TT-CE+ | t2v | dis | train:60000 | 1 | R@5 = 42.1
qbnorm | 1 | msrvtt | TT-CE+ | t2v | dis | val | 1 | MdR = 9.0
qbnorm | 2 | msrvtt | TT-CE+ | t2v | gc | train:5000 | 1 | R@10 = 51.8
qbnorm | 2 | msrvtt | TT-CE+ | t2v | csls | msvd/train:5000 | 1 | MdR = 9.0
qbnorm | 2 | msrvtt | TT-CE+ | t2v | is | lsmdc/train:5000 | 1 | R@1 = 11.6
qbnorm | 2 | msrvtt | TT-CE+ | t2v | dis | train:5000:adversarial | 1 | R@10 = 51.5
qbnorm | 3 | didemo | not stated | t2v | raw | | 1 | skewness = 1.21
qbnorm | 3 | coco | not stated | t2i | dis | train | 1 | skewness = 0.16
qbnorm | 4 | msrvtt | TT-CE+ | t2v | dis | train | 1 | R@1 = 33.3
qbnorm | 4 | msrvtt | CLIP2Video | t2v | raw | | 1 | R@10 = 81.7
qbnorm | 5 | msvd | CLIP2Video | t2v | dis | train | 1 | R@5 = 77.6
qbnorm | 6 | didemo | CE+ | t2v | raw | | 1 | MdR = 7.9
qbnorm | 7 | lsmdc | TT-CE+ | t2v | dis | train | 1 | R@10 = 47.6
qbnorm | 8 | vatex | CLIP2Video | t2v | raw | | 1 | R@1 = 57.4
qbnorm | 9 | queryd | TT-CE+ | t2v | dis | train | 1 | MdR = 10.3
qbnorm | 10 | coco | CLIP ViT-B/32 | t2i | dis | train | 1 | R@1 = 34.8
qbnorm | 10 | coco | MMT-Oscar | t2i | raw | | 1 | R@10 = 88.0
qbnorm | 11 | cub | RDML | i2i | raw | | 1 | R@8 = 90.0
qbnorm | 12 | sop | RDML | i2i | dis | train | 1 | R@100 = 95.6
qbnorm | 13 | audiocaps | AR-CE | t2a | dis | train | 1 | R@5 = 57.1
qbnorm | 14 | msrvtt | TT-CE+ | t2v | dis:k=10 | lsmdc/train:5000 | 1 | R@5 = 37.5
qbnorm | 19 | activitynet | CLIP4Clip | t2v | dis | train | 1 | R@50 = 97.6
qbnorm | 20 | msrvtt | TT-CE+ (one seed) | t2v | cent | train | 1 | R@1 = 14.4
qbnorm | 21 | msrvtt | CE+ | v2t | dis | train | 1 | R@1 = 28.6
nnn | 1 | flickr30k | CLIP | t2i | raw | | 1 | R@1 = 58.82
nnn | 1 | flickr30k | CLIP | t2i | nnn | train:20% | 1 | R@1 = 64.60
nnn | 1 | coco | CLIP | t2i | nnn | flickr30k/train:20% | 1 | R@1 = 33.45
nnn | 1 | coco | SigLIP | t2i | dualis | train:20% | 1 | R@1 = 49.93
nnn | 1 | flickr30k | BEiT-3 Large ft. Flickr | t2i | nnn | coco/train:20% | 1 | R@1 = 87.70
nnn | 1 | coco | BEiT-3 ft. COCO | t2i | raw | | 1 | R@1 = 61.88
nnn | 2 | flickr30k | BLIP ft. Flickr | i2t | dualis | train:20% | 1 | R@1 = 95.70
nnn | 2 | coco | BEiT-3 | i2t | nnn | train:20% | 1 | R@1 = 69.12
nnn | 2 | flickr30k | BEiT-3 Large ft. COCO | i2t | nnn | coco/train:20% | 1 | R@1 = 96.20
nnn | 3 | coco | CLIP | t2i | raw | | 1 | kurtosis@1 = 59.8
nnn | 3 | flickr30k | BLIP ft. COCO | t2i | nnn | train | 1 | largest@1 = 12
nnn | 3 | coco | BLIP ft. COCO | t2i | raw | | 1 | mean_deviation@1 = 2.1
nnn | fig3 | visogender | CLIP | t2i | nnn:k=16,alpha=0.75 | coco/train | 1 | bias@6 = 0.072
nnn | A3 | coco | SigLIP | t2i | nnn:k=8,alpha=0.75 | train | 1 | R@1 = 49.9
nnn | A6 | coco | ALBEF ft. Flickr | t2i | dualdis | train:20% | 1 | R@1 = 56.70
nnn | A7 | flickr30k | BEiT-3 Large | i2t | dn | train:20% | 1 | R@1 = 92.70
nnn | A8 | flickr30k | CLIP | t2i | nnn | train | 1 | R@10 = 93.00
nnn | A11 | coco | SigLIP | i2t | nnn | flickr30k/train | 1 | R@5 = 87.18
nnn | A14 | coco | BLIP ft. Flickr | t2i | nnn | train:50% | 1 | R@1 = 60.00
dbsn | 1 | msrvtt | X-Pool | t2v | sn | test | 1 | R@1 = 52.7
dbsn | 1 | didemo | DRL | v2t | is | test | 1 | R@1 = 53.9
dbsn | 1 | msrvtt | CLIP4Clip | v2t | raw | | 1 | MnR = 11.1
dbsn | 1 | didemo | X-Pool | t2v | dis | test | 1 | R@10 = 86.5
dbsn | 2 | flickr30k | zs CLIP | t2i | sn | test | 1 | R@1 = 69.3
dbsn | 2 | coco | zs ALBEF | i2t | is | test | 1 | R@5 = 93.3
dbsn | 2 | coco | ft CLIP | t2i | raw | | 1 | MnR = 11.3
dbsn | 3 | audiocaps | zs CLAP | t2a | dis | test | 1 | R@5 = 77.0
dbsn | 3 | clotho | zs CLAP | t2a | sn | test | 1 | MnR = 30.1
dbsn | 4 | flickr30k | zs CLIP | t2i | dbsn | train | 1 | R@1 = 67.1
dbsn | 4 | msrvtt | CLIP4Clip | t2v | sn | jsfusion | 1 | R@1 = 46.2
dbsn | 5 | msrvtt | CLIP4Clip | t2v | is | test | 1 | skewness = 0.87
dbsn | 6 | flickr30k | zs CLIP | t2i | otn | test | 1 | sparsity = 0.99880
dbsn | 6 | msrvtt | CLIP4Clip | t2v | hn | test | 1 | MdR = 51.0
dbsn | A1 | activitynet | DRL | t2v | sn | test | 1 | R@1 = 57.7
dbsn | A2 | msvd | X-Pool | v2t | is | test | 1 | R@10 = 96.4
dbsn | A3 | msrvtt | TT-CE+ | t2v | sn | test | 1 | MdR = 8.0
dbsn | A4 | bookset | zs PLIP | t2i | sn | test | 1 | MnR = 548.3
dbsn | A5 | inshop | DINO | i2i | sn | test | 1 | R@30 = 84.3
dbsn | A6 | imagenet | zs CLIP ViT-B/32 | i2t | sn | test | 1 | R@1 = 65.64
dbsn | A8 | coco | ft CLIP | t2i | dualis | val | 1 | R@1 = 46.8
dbsn | A10 | didemo | X-Pool | t2v | dis | train | 1 | MnR = 12.9
mqvr | 1 | msrvtt | CLIP4Clip | t2v | raw | | 1 | R@1 = 41.5
mqvr | 1 | msrvtt | Frozen | t2v | ra | | 5 | MdR = 2.0
mqvr | 1 | msvd | CLIP4Clip | t2v | cg-wf | | 5 | R@10 = 94.9
mqvr | 1 | vatex | CLIP4Clip | t2v | mf | | 5 | MnR = 4.9
mqvr | 1 | msrvtt | Frozen | t2v | lg-wf | | 5 | R@5 = 87.6
mqvr | 2 | vatex | CLIP4Clip | t2v | cg-wf | | 10 | AUC_10 of R@1 = 56.8
mqvr | 2 | msvd | CLIP4Clip | t2v | sa | | 3 | AUC_3 of R@1 = 50.6
mqvr | fig6b | vatex | CLIP4Clip (trained on MSR-VTT, 7q) | t2v | mf | | 5 | AUC_5 of R@1 = 38.7
"""

# Whole tables and whole rows, read off in the same way, in the order of the paper.
WHOLE = [
    (
        {"paper": "qbnorm", "table": "1"},
        "14.9 38.3 51.5 10.0  17.3 42.1 54.9 8.0  16.6 40.8 53.7 9.0  17.5 42.4 55.1 8.0",
    ),
    ({"paper": "qbnorm", "table": "3"}, "0.939 0.509  1.21 0.39  0.715 0.321  0.56 0.16"),
    ({"paper": "qbnorm", "table": "4", "model": "CLIP2Video"}, "45.6 72.5 81.7 2.0  47.2 73.0 83.0 2.0"),
    ({"paper": "qbnorm", "table": "11"}, "64.4 75.3 83.4 90.0  64.8 75.6 84.0 90.4"),
    ({"paper": "qbnorm", "table": "12"}, "77.8 89.5 95.4 98.4  78.1 89.8 95.6 98.5"),
    ({"paper": "qbnorm", "table": "13"}, "23.1 55.1 70.7 4.7  23.9 57.1 71.6 4.0"),
    ({"paper": "nnn", "table": "1", "model": "CLIP"}, "58.82 65.26 64.60 63.70  30.43 37.82 33.45 37.53"),
    ({"paper": "nnn", "table": "1", "model": "BEiT-3 ft. Flickr"}, "86.12 84.68 86.00 86.30  53.57 55.16 53.79 55.91"),
    (
        {"paper": "nnn", "table": "2", "model": "BEiT-3 Large ft. COCO"},
        "95.50 95.00 95.30 96.20  82.10 80.88 81.98 82.72",
    ),
    ({"paper": "nnn", "table": "2", "model": "ALBEF ft. COCO"}, "87.30 90.50 90.00 89.30  78.60 80.54 79.10 80.68"),
    ({"paper": "nnn", "table": "3", "model": "CLIP", "data_set": "coco"}, "59.8 9.5  4.8 2.6  162 48"),
    ({"paper": "nnn", "table": "3", "model": "CLIP", "data_set": "flickr30k"}, "9.0 1.1  2.8 1.7  39 15"),
    ({"paper": "nnn", "table": "3", "model": "BLIP ft. COCO", "data_set": "coco"}, "32.1 12.3  2.1 1.6  59 32"),
    ({"paper": "nnn", "table": "3", "model": "BLIP ft. COCO", "data_set": "flickr30k"}, "3.2 1.9  1.2 1.0  15 12"),
    ({"paper": "nnn", "table": "fig3"}, "0.348 0.072  0.270 0.078  56.5 69.6  49.6 56.5"),
    (
        {"paper": "dbsn", "table": "1", "model": "X-Pool", "method": "sn"},
        "52.7 78.4 86.5 10.1  53.4 78.8 86.9 7.4  53.1 78.6 86.8 9.6  54.3 79.5 87.1 7.0",
    ),
    (
        {"paper": "dbsn", "table": "2", "model": "zs ALBEF", "method": "dis"},
        "80.9 95.5 97.7 2.3  96.8 99.7 100.0 1.1  54.5 80.1 87.7 10.4  76.8 93.3 96.6 2.3",
    ),
    (
        {"paper": "dbsn", "table": "3"},
        """40.1 76.0 87.9 2.0 6.2  41.5 77.1 88.2 2.0 6.0  41.4 77.0 88.1 2.0 6.1  43.6 79.4 89.2 2.0 5.5
        15.6 39.8 53.1 9.0 38.8  17.6 44.5 57.8 7.0 31.2  17.7 44.6 57.8 7.0 31.0  18.5 46.2 59.2 7.0 30.1""",
    ),
    (
        {"paper": "dbsn", "table": "4", "data_set": "flickr30k", "bank": "train"},
        """65.1 87.5 92.8 1.0 4.7  65.1 87.5 92.8 1.0 4.7  66.3 88.1 93.1 1.0 4.7
        65.3 87.4 92.9 1.0 4.7  67.1 88.7 93.5 1.0 4.4""",
    ),
    (
        {"paper": "dbsn", "table": "5"},
        "2.24 0.50 0.07  2.03 1.61 1.05  1.87 0.87 0.46  1.18 0.67 0.36",
    ),
    (
        {"paper": "dbsn", "table": "6", "data_set": "msrvtt"},
        """49.2 75.4 83.8 2.0 11.9 0  48.0 48.3 48.3 53.0 263.0 0.99900
        47.8 49.2 49.2 26.0 256.7 0.99891  48.1 48.4 48.4 51.0 262.2 0.99900""",
    ),
    (
        {"paper": "mqvr", "table": "1", "data_set": "msrvtt", "method": "sa"},
        "68.4 92.1 97.0 1.0 2.4  55.3 85.2 92.5 1.0 4.2",
    ),
    (
        {"paper": "mqvr", "table": "2"},
        """41.5 54.0 59.9 66.1  40.3 54.4 61.3 68.8  41.0 55.5 62.7 70.4  41.9 54.6 60.8 67.5
        43.8 50.6 53.5 56.4  43.5 51.3 54.8 58.3  43.6 52.6 56.4 60.2  44.0 51.2 54.5 57.9
        33.3 40.1 43.1 46.2  31.8 43.7 49.2 55.1  32.8 44.6 50.4 56.8  34.4 43.5 47.6 52.1""",
    ),
    (
        {"paper": "mqvr", "table": "fig6b"},
        """33.3 40.1 43.1 46.2  26.5 32.2 34.7 37.3  27.0 33.2 36.0 38.9
        27.1 33.8 36.9 40.0  27.1 34.7 38.2 41.9  26.6 34.8 38.7 42.8""",
    ),
]

# Rows times columns of each table, without the rows of models that the paper only cites.
SIZES = {
    "qbnorm": {
        **{"1": 4 * 4, "2": 17 * 4, "3": 8, "4": 4 * 4, "5": 4 * 4, "6": 4 * 4, "7": 4 * 4, "8": 4 * 4, "9": 4 * 4},
        **{"10": 4 * 4, "11": 2 * 4, "12": 2 * 4, "13": 2 * 4, "14": 11 * 4, "15": 4 * 4, "16": 6 * 4, "17": 6 * 4},
        **{"18": 6 * 4, "19": 4 * 4, "20": 3 * 4, "21": 4 * 4},
    },
    "nnn": {
        **{"1": 14 * 8, "2": 14 * 8, "3": 6 * 4, "fig3": 8, "A3": 14 * 8, "A4": 14 * 8, "A6": 14 * 10, "A7": 14 * 10},
        **{"A8": 14 * 9, "A9": 14 * 9, "A10": 14 * 9, "A11": 14 * 9, "A12": 14 * 5, "A13": 14 * 5, "A14": 14 * 5},
    },
    "dbsn": {
        **{"1": 12 * 16, "2": 12 * 16, "3": 8 * 5, "4": 23 * 5, "5": 12, "6": 8 * 6, "A1": 9 * 16, "A2": 9 * 16},
        **{
            "A3": 12 * 5,
            "A4": 3 * 16,
            "A5": 3 * 16,
            "A6": 9 * 3,
            "A7": 26 * 5,
            "A8": 26 * 5,
            "A9": 23 * 5,
            "A10": 21 * 5,
        },
    },
    "mqvr": {"1": 14 * 10, "2": 12 * 4, "fig6b": 6 * 4},
}

HUBNESS = {"skewness", "kurtosis", "mean_deviation", "largest"}
WITHOUT_RAW = {("dbsn", "6"), ("mqvr", "2"), ("mqvr", "fig6b")}  # these tables begin with a corrected or combined row


def sample() -> list[tuple[tuple[str, ...], float]]:
    lines = (line.split(" = ") for line in SAMPLE.strip().splitlines())
    return [(tuple(cell.strip() for cell in about.split("|")), float(value)) for about, value in lines]


def about(figure: Figure) -> tuple[str, ...]:
    what = (figure.paper, figure.table, figure.data_set, figure.model, figure.direction, figure.method, figure.bank)
    return (*what, str(figure.queries), figure.measure)


def test_the_sample_is_large_and_from_every_main_table() -> None:
    assert len(sample()) >= 60
    tables = {(paper, table) for (paper, table, *_), _ in sample()}
    main = {"qbnorm": 13, "nnn": 3, "dbsn": 6, "mqvr": 2}
    assert tables >= {(paper, str(table)) for paper, last in main.items() for table in range(1, last + 1)}


def test_each_figure_of_the_sample_is_in_the_file_once_and_as_printed() -> None:
    held = defaultdict(list)
    for figure in published():
        held[about(figure)].append(figure.value)
    assert {key: held[key] for key, _ in sample()} == {key: [value] for key, value in sample()}


@pytest.mark.parametrize(("which", "printed"), WHOLE, ids=[" ".join(which.values()) for which, _ in WHOLE])
def test_a_whole_row_or_table_of_the_file_is_the_printed_one_and_no_more(which: dict[str, str], printed: str) -> None:
    values = [one.value for one in published() if all(getattr(one, name) == wanted for name, wanted in which.items())]
    assert values == [float(word) for word in printed.split()]


def test_every_table_has_all_its_figures() -> None:
    counted = Counter((one.paper, one.table) for one in published())
    assert counted == {(paper, table): size for paper, tables in SIZES.items() for table, size in tables.items()}
    assert len(published()) == sum(counted.values())


def test_a_spread_is_read_with_its_value() -> None:
    (figure,) = (
        one for one in published("nnn", "A8") if one.model == "SigLIP" and about(one)[5:] == ("raw", "", "1", "R@5")
    )
    assert (figure.value, figure.spread) == (92.30, 0.74)
    assert all(one.spread is None for one in published("dbsn") + published("mqvr"))


@pytest.mark.parametrize(("table", "queries"), [("A8", 5000), ("A9", 1000), ("A10", 25_000), ("A11", 5000)])
def test_the_printed_intervals_are_those_of_their_recalls(table: str, queries: int) -> None:
    """Half of the 95% interval of a share; a digit that was misread would show."""
    for one in published("nnn", table):
        share = one.value / 100
        assert one.spread == pytest.approx(196 * (share * (1 - share) / queries) ** 0.5, abs=0.0151)


def rows() -> dict[tuple[str | int, ...], dict[str, float]]:
    """Return the values of each printed row by their measures."""
    found: dict[tuple[str | int, ...], dict[str, float]] = defaultdict(dict)
    for one in published():
        found[one.key[:-1]][one.measure] = one.value
    return found


def test_recalls_are_percentages_and_rise_with_k() -> None:
    for key, values in rows().items():
        by_depth = sorted((int(name[2:]), value) for name, value in values.items() if name.startswith("R@"))
        recalls = [value for _, value in by_depth]
        assert all(0 <= value <= 100 for value in recalls), key
        assert all(low <= high for low, high in itertools.pairwise(recalls)), key


def test_the_median_rank_agrees_with_the_recalls() -> None:
    for key, values in rows().items():
        if "MdR" in values:
            assert (values["MdR"] == 1) == (values["R@1"] >= 50), key
        assert values.get("MnR", 1) >= 1, key


def test_raw_stands_wherever_a_method_does() -> None:
    def place(one: Figure) -> tuple[str, ...]:
        return (one.paper, one.table, one.data_set, one.split, one.model, one.direction, one.measure)

    raw = {place(one) for one in published() if one.method == "raw"}
    others = {place(one) for one in published() if one.method != "raw"}
    assert raw <= others
    assert {key[:2] for key in others - raw} == WITHOUT_RAW


def test_a_bank_is_named_exactly_where_a_method_needs_one() -> None:
    for one in published():
        if one.paper != "mqvr":
            assert bool(one.bank) == (one.method != "raw"), one
        assert re.fullmatch(r"(\w+/)?\w+(:(\d+%?)(:adversarial)?)?|", one.bank), one


def test_methods_and_measures_are_those_of_unhub() -> None:
    for one in published():
        if one.method.partition(":")[0] in METHODS:
            assert parse(one.method).name == one.method.partition(":")[0]
        else:
            assert one.paper == "mqvr" and one.method in {*COMBINATIONS, *HEADS}
        family = one.measure.partition("@")[0].rpartition(" ")[2]
        assert family in {*MEASURES, *HUBNESS, "sparsity", "bias"}, one.measure


def test_figures_are_chosen_by_paper_table_and_data_set() -> None:
    assert {one.paper for one in published()} == set(CITED)
    assert {one.table for one in published("nnn", data_set="visogender")} == {"fig3"}
    assert {one.paper for one in published(table="A5")} == {"dbsn"}
    assert published(data_set="flickr8k") == []  # none of the papers uses it


def test_an_unknown_paper_or_table_is_named_with_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match="paper 'qb-norm' is unknown; did you mean 'qbnorm'"):
        published("qb-norm")
    with pytest.raises(ArgumentError, match="the tables of mqvr with published figures are 1, 2, fig6b"):
        published("mqvr", "3")


def changed(folder: Path, old: str, new: str) -> Path:
    """Write the first lines of the file with one thing replaced."""
    path = folder / "published.csv"
    lines = FILE.read_text(encoding="utf-8").splitlines()[:3]
    path.write_text("\n".join(lines).replace(old, new) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("paper,table", "table,paper", "must begin with the columns paper,table,data_set"),
        ("38.3", "38,3", "line 3: has 14 columns, not 13"),
        ("38.3", "n/a", "line 3: value must be a number of 0 or more, got 'n/a'"),
        ("38.3", "nan", "line 3: value must be a number of 0 or more, got 'nan'"),
        ("14.9,0.1", "14.9,-0.1", "line 2: spread must be a number of 0 or more, got '-0.1'"),
        (",1,R@1", ",1.5,R@1", "line 2: queries must be a whole number above 0, got '1.5'"),
        ("TT-CE+", "", "line 2: model is empty"),
        ("qbnorm", "qb", "line 2: paper is 'qb', not one of qbnorm, nnn, dbsn, mqvr"),
        ("R@5", "R@1", "line 3: a figure of the same kind stands above"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        read_published(changed(tmp_path, old, new))


def test_the_columns_are_those_of_a_figure() -> None:
    assert COLUMNS[:5] == ("paper", "table", "data_set", "split", "model")
    assert COLUMNS[-3:] == ("measure", "value", "spread")
