"""The frame: texts in scripts and titles cannot leave their place."""

from __future__ import annotations

import json
import re

from ioweather.ui.charts.page import html_page, json_block, prose


def test_a_title_is_escaped() -> None:
    page = html_page("</title><script>x</script>", ["<p>body</p>"], footer="<dl></dl>")
    assert "<script" not in page
    assert "<title>&lt;/title&gt;" in page
    assert "<footer><dl></dl></footer>" in page


def test_data_cannot_end_their_element() -> None:
    value = {"name": "</script><img>", "line": "a\u2028b"}
    block = json_block("x", value)
    inner = re.fullmatch(r'<script type="application/json" id="x">(.*)</script>', block)
    assert inner is not None
    assert "<" not in inner[1]
    assert "\u2028" not in inner[1]
    assert json.loads(inner[1]) == value


def test_a_command_in_a_sentence_is_set_apart_and_stays_inert() -> None:
    assert prose("Run `ioweather <x>` & wait.") == "Run <code>ioweather &lt;x&gt;</code> &amp; wait."
    assert prose("a lone ` is a character") == "a lone ` is a character"
