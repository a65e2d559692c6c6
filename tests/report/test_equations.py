"""Every exhibit says how it is computed."""

from __future__ import annotations

from ioweather.core.papers import exhibits
from ioweather.report.equations import EQUATIONS
from ioweather.report.methods import METHODS, equation_html


def test_every_exhibit_has_an_equation_and_no_other():
    assert list(EQUATIONS) == [entry.id for entry in exhibits()]
    assert all(EQUATIONS.values())


def test_notation_is_closed():
    for equations in EQUATIONS.values():
        for text, _ in equations:
            html = equation_html(text)
            assert "_{" not in html
            assert "^{" not in html
            assert text.count("{") == text.count("}")


def test_the_equations_of_the_report_are_those_of_its_exhibits():
    """The same thing is written the same way in both places."""
    of_exhibits = {text for equations in EQUATIONS.values() for text, _ in equations}
    for method in METHODS.values():
        for text, _ in method.equations:
            assert text in of_exhibits
