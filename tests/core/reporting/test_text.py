"""Hostile text never reaches the terminal as anything but printable characters of one line."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from llmcrawler.core.reporting.text import column, percent, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Café ☕ 日本", "Café ☕ 日本"),
        ("two\nlines\tand\r", "two lines and "),
        ("\x1b[2J\x1b]0;owned\x07", "�[2J�]0;owned�"),
        ("\x9b31mred", "�31mred"),
        ("back\x08\x7f\x00", "back���"),
        ("exe\u202egpj\u2066\u200b\u061c", "exegpj"),
        ("a\u2028b\u2029c", "a�b�c"),
        ("lone \ud800 surrogate", "lone � surrogate"),
        (None, "None"),
    ],
)
def test_only_printable_characters_of_one_line_stay(text: object, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize("width", [0, 1, 2, 5, 9, 40])
@pytest.mark.parametrize("text", ["", "abc", "日本語のとても長いタイトル", "x" * 100])
def test_text_keeps_to_its_width_in_cells(text: str, width: int) -> None:
    assert cell_len(plain(text, width)) <= width
    assert cell_len(column(text, width)) == width
    assert cell_len(column(text, width, right=True)) == width


@pytest.mark.parametrize(
    ("share", "words"), [(0, "0%"), (0.001, "<1%"), (0.296, "29%"), (202 / 203, "99%"), (1, "100%")]
)
def test_percents_say_all_and_nothing_only_of_all_and_nothing(share: float, words: str) -> None:
    assert percent(share) == words


def test_cut_text_says_so() -> None:
    assert plain("abcdefgh", 5) == "abcd…"
    assert plain("abcde", 5) == "abcde"
