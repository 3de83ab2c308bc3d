"""Tables in a given width: columns drop by importance, ids fold at separators, every character counts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import product

import pytest
from rich.cells import cell_len

from kgroup.model.blocks import Cell, Column, Style, Styled, Table
from kgroup.output.terminal.layout import draw_table, fold, text_of
from kgroup.support.quoting import visible
from tests.helpers.for_each import for_each

IDS = (
    "orders",
    "orders-enrich-eu-west-1.prod",
    "com.example.orders.Enrich_v2:7",
    "consumer-orders-enrich-1-9f1c0a52-6c1b-4b7e-8d63-5d2f1a7e0b9c",
    "x" * 249,
    "注文処理-サービス-東京リージョン-本番環境",
    "заказы-обработка-" * 6,
    "\U0001f980-crabs-\U0001f680-rockets-" * 4,
    "e\u0301te\u0301-" * 20,
    "a b c d e f g h i j k l m n o p",
    "--------------------------------",
    "-a",
    "",
)


def plain(text: str, style: Style | None) -> str:
    return text


def lines_of(table: Table, width: int | None = None, *, wide: bool = False) -> list[str]:
    return list(draw_table(table, width, wide, plain))


@for_each("text", IDS)
@for_each("width", (2, 5, 12, 20, 33, 80))
def test_folding_never_loses_a_character_and_keeps_to_the_width(text: str, width: int) -> None:
    lines = fold(text, width)

    assert "".join(lines) == text
    assert all(cell_len(line) <= width for line in lines)
    assert len(lines) == 1 or all(lines)


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("orders-enrich-eu-west-1", 12, ["orders-", "enrich-eu-", "west-1"]),
        ("orders-enrich", 13, ["orders-enrich"]),
        ("com.example.orders", 12, ["com.example.", "orders"]),
        ("orders:7", 7, ["orders:", "7"]),
        ("a_b_c", 3, ["a_", "b_c"]),
        ("b1:9092,b2:9092", 8, ["b1:9092,", "b2:9092"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("ab-cdefghij", 4, ["ab-", "cdef", "ghij"]),
        ("注文処理", 4, ["注文", "処理"]),
        ("", 5, [""]),
    ],
)
def test_folding_is_behind_a_separator_where_one_is_in_reach(text: str, width: int, lines: list[str]) -> None:
    assert fold(text, width) == lines


@pytest.mark.parametrize("width", [2, 3, 7, 12])
def test_a_combining_character_stays_with_its_base(width: int) -> None:
    assert not any(unicodedata.combining(line[0]) for line in fold("e\u0301" * 30, width))


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "-"),
        (0, "0"),
        (92063402, "92063402"),
        ("", ""),
        ("orders", "orders"),
        ("注文", "注文"),
        (Styled("STOP", "bad"), "STOP"),
        ("a\tb", "a\\tb"),
        ("a\nb\rc", "a\\nb\\rc"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("nul\x00", "nul\\x00"),
        ("del\x7f", "del\\x7f"),
        ("\u202eevil", "\\u202eevil"),
        ("\u200bzero", "\\u200bzero"),
        ("line\u2028sep", "line\\u2028sep"),
        ("\x9b31m", "\\x9b31m"),
        ("\udcff", "\\udcff"),
        (Styled("a\x07", "bad"), "a\\x07"),
    ],
)
def test_the_text_of_a_cell(cell: Cell, text: str) -> None:
    assert text_of(cell) == text


@pytest.mark.parametrize("text", ["a\x1b[2Jb", "\r", "\x00", "\x85", "\u202e", "\udc80"])
def test_nothing_that_moves_the_cursor_gets_out(text: str) -> None:
    assert visible(text).isprintable()
    assert all(line.isprintable() for line in lines_of(Table([Column("GROUP", fold=True)], [[text]]), 80))


NUMBERS = Table(
    [Column("GROUP"), Column("LAG", right=True), Column("STATE")],
    [["a", 7, "Empty"], ["bbb", 12345, "Stable"], ["c", None, None]],
)


def test_numbers_right_words_left_unknown_is_a_dash() -> None:
    assert lines_of(NUMBERS) == [
        "GROUP    LAG  STATE",
        "a          7  Empty",
        "bbb    12345  Stable",
        "c          -  -",
    ]


def test_no_line_ends_in_blanks() -> None:
    table = Table([Column("A"), Column("B")], [["x", ""], ["longer", "y"]])

    assert all(line == line.rstrip() for line in lines_of(table))


@pytest.mark.parametrize("text", [text for text in IDS if text and " " not in text])
def test_what_follows_a_wide_character_is_aligned(text: str) -> None:
    table = Table([Column("GROUP"), Column("STATE")], [["plain", "Stable"], [text, "Stable"]])

    starts = {cell_len(line[: line.index("Sta")]) for line in lines_of(table)[1:]}
    assert starts == {max(cell_len(text), 5) + 2}


def test_colour_does_not_shift_a_column() -> None:
    table = Table(
        [Column("STATE"), Column("LAG", right=True)], [[Styled("STOP", "bad"), 1], ["OK", Styled("22", "warn")]]
    )

    painted = list(draw_table(table, 80, False, lambda text, style: f"\x1b[1m{text}\x1b[0m" if style else text))

    assert [re.sub(r"\x1b\[\dm", "", line) for line in painted] == lines_of(table, 80)
    assert sum("\x1b" in line for line in painted) == 2
    assert not any(line.endswith(" \x1b[0m") for line in painted)


DROPPING = Table(
    [
        Column("GROUP", fold=True),
        Column("STATE"),
        Column("SECOND", drop=2),
        Column("LAST", drop=1),
        Column("FIRST", drop=3),
        Column("ONLY-WIDE", wide=True),
    ],
    [["orders", "Stable", "second", "last", "first", "wide"]],
)


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (None, ["GROUP", "STATE", "SECOND", "LAST", "FIRST"]),
        (200, ["GROUP", "STATE", "SECOND", "LAST", "FIRST"]),
        (35, ["GROUP", "STATE", "SECOND", "LAST", "FIRST"]),
        (34, ["GROUP", "STATE", "SECOND", "LAST"]),
        (28, ["GROUP", "STATE", "SECOND", "LAST"]),
        (27, ["GROUP", "STATE", "LAST"]),
        (20, ["GROUP", "STATE", "LAST"]),
        (19, ["GROUP", "STATE"]),
    ],
)
def test_columns_go_by_importance(width: int | None, columns: list[str]) -> None:
    assert lines_of(DROPPING, width)[0].split() == columns


def test_wide_columns_are_shown_when_asked_for() -> None:
    assert "ONLY-WIDE" in lines_of(DROPPING, None, wide=True)[0]


def test_a_sparse_column_without_any_value_is_left_out() -> None:
    columns = [Column("GROUP"), Column("RACK"), Column("STATUS")]
    table = Table(columns, [["a", None, None], ["b", None, "STOP"]], sparse=frozenset({"RACK", "STATUS"}))

    assert lines_of(table)[0].split() == ["GROUP", "STATUS"]
    assert lines_of(Table(columns, [["a", None, None]]))[0].split() == ["GROUP", "RACK", "STATUS"]


def test_a_table_without_rows_has_its_headings() -> None:
    assert lines_of(Table([Column("GROUP"), Column("STATE")], [])) == ["GROUP  STATE"]


def test_nothing_folds_where_the_width_has_no_limit() -> None:
    assert lines_of(Table([Column("GROUP", fold=True), Column("S")], [["x" * 500, "y"]]))[1] == "x" * 500 + "  y"


def squeezed() -> Iterator[tuple[Table, int]]:
    """Tables that can always be made to fit: one or two ids that fold, the rest drops."""
    for text, width in product(IDS, range(20, 201, 9)):
        yield (
            Table(
                [
                    Column("GROUP", fold=True),
                    Column("LAG", right=True),
                    Column("COORDINATOR", drop=1),
                    Column("TYPE", drop=2),
                ],
                [[text, 123456, "1 (b1:9092)", "classic"], ["orders", None, None, "consumer"]],
            ),
            width,
        )
        if width >= 40:
            yield (
                Table(
                    [Column("PARTITION", fold=True), Column("LAG", right=True), Column("OWNER", fold=True)],
                    [[f"{text}:0", 123456, text * 2], ["orders:1", 7, "x" * 180]],
                ),
                width,
            )


def test_no_line_is_longer_than_the_width_where_columns_can_drop_or_fold() -> None:
    for table, width in squeezed():
        for line in lines_of(table, width):
            assert cell_len(line) <= width, (width, line)


def test_a_folded_table_loses_no_character() -> None:
    for table, width in squeezed():
        text = re.sub(r"\s", "", "".join(lines_of(table, width)))
        for row in table.rows:
            assert str(row[0]).replace(" ", "")[:1] in text
        first = "".join(line[:width] for line in lines_of(table, width))
        assert all(character in first for character in set(str(table.rows[0][0])) - {" "})


def test_a_folded_id_goes_on_below_itself_and_can_be_put_together_again() -> None:
    name = "orders-enrich-eu-west-1-production"
    lines = lines_of(Table([Column("GROUP", fold=True), Column("LAG", right=True)], [[name, 5], ["b", 6]]), 24)

    assert lines[-1].split() == ["b", "6"]
    parts = [line.split()[0] for line in lines[1:-1]]
    assert len(parts) > 1
    assert "".join(parts) == name
    assert all(part.endswith("-") for part in parts[:-1])
    assert lines[1].split()[-1] == "5"


def test_a_short_id_is_not_folded_beside_a_long_one() -> None:
    table = Table(
        [Column("PARTITION", fold=True), Column("LAG", right=True), Column("OWNER", fold=True)],
        [["orders-enriched:7", 1, "consumer-" * 12]],
    )

    assert lines_of(table, 80)[1].startswith("orders-enriched:7  ")


@pytest.mark.parametrize("rows", [1, 5000])
def test_many_rows_are_drawn(rows: int) -> None:
    table = Table([Column("GROUP", fold=True), Column("LAG", right=True)], [[f"group-{n}", n] for n in range(rows)])

    assert len(lines_of(table, 80)) == rows + 1
