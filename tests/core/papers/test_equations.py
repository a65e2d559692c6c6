"""Every exhibit says how it is computed."""

from __future__ import annotations

from ioweather.core.papers import PAPERS, document, exhibits
from ioweather.ui.report.write import equation_html


def test_notation_is_closed():
    for entry in exhibits():
        for text, _ in entry.equations:
            html = equation_html(text)
            assert "_{" not in html
            assert "^{" not in html
            assert text.count("{") == text.count("}")


def test_the_equations_of_the_report_are_those_of_its_exhibits():
    """The same thing is written the same way in both places."""
    of_exhibits = {text for entry in exhibits() for text, _ in entry.equations}
    for key in PAPERS:
        for text, _ in document(key)["method_equations"]:
            assert text in of_exhibits
