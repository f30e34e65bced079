"""Tables as plain text."""

import pytest

from unhub.evaluation.tables import as_text, counted

pytestmark = pytest.mark.once


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_stand_to_the_right() -> None:
    rows = [["raw", "9.50 [8.00, 11.00]", ""], ["nnn:k=10 *", "10.00 [9.00, 11.00]", "+0.50"]]
    assert as_text(["ranking", "R@1", "gain"], rows).splitlines() == [
        "ranking                     R@1   gain",
        "──────────  ───────────────────  ─────",
        "raw          9.50 [8.00, 11.00]",
        "nnn:k=10 *  10.00 [9.00, 11.00]  +0.50",
    ]


def test_a_table_without_rows_has_its_heads() -> None:
    assert as_text(["one", "two"], []).splitlines() == ["one  two", "───  ───"]


def test_words_stand_to_the_left_of_their_column() -> None:
    assert as_text(["id", "n"], [["7", "1,234"], ["cat", "5"]]).splitlines()[2:] == ["7    1,234", "cat      5"]


def test_a_row_of_another_length_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="argument"):
        as_text(["one", "two"], [["1"]])


def test_a_count_agrees_with_its_noun() -> None:
    assert counted(1, "query has", "queries have") == "1 query has"
    assert counted(0, "query has", "queries have") == "0 queries have"
    assert counted(2000, "query has", "queries have") == "2,000 queries have"
