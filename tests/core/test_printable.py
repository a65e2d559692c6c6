"""Text of others on a screen: what a terminal would obey is shown, everything else stays as it is."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioweather.core.units import joined, many_lines, marked, one_line

DIRECTION = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Grüße 数据 \\ 'x'", "plain Grüße 数据 \\ 'x'"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\nforged\r\tb", "a\\nforged\\r\\tb"),
        ("exe\u202egpj.sh", "exe\\u202egpj.sh"),
        ("\u2066x\u2069\u200e\u200f\u061c", "\\u2066x\\u2069\\u200e\\u200f\\u061c"),
        (b"caf\xe9".decode("utf-8", "surrogateescape"), "caf\\xe9"),
        ("half \ud83d", "half \\ud83d"),
        ("line\u2028end", "line\\u2028end"),
    ],
)
def test_what_would_be_obeyed_is_shown(text: str, shown: str) -> None:
    assert one_line(text) == shown


@given(st.text(st.characters()))
def test_nothing_that_controls_or_turns_is_left(text: str) -> None:
    """Against the character database: no control character, no mark of direction, and it can be written as UTF-8."""
    for made in (one_line(text), many_lines(text).replace("\n", "").replace("\t", "")):
        made.encode()
        assert not any(unicodedata.category(c) in ("Cc", "Zl", "Zp", "Cs") for c in made)
        assert not any(unicodedata.bidirectional(c) in DIRECTION for c in made)
    assert "\x1b" not in marked(text)
    assert len(one_line(text).splitlines()) <= 1


def test_a_message_of_several_lines_is_one_sentence() -> None:
    assert joined("Parser Error:\n\nLINE 1: selec\n   ^\x1b\n") == "Parser Error: LINE 1: selec ^\\x1b"
