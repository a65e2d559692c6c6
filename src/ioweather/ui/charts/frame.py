"""The frame of every HTML page: one file, no address outside it, light and dark, on a phone and on paper.

Pages hold markup that was made by this package; everything that comes from data passes `html.escape`. The content
security policy forbids all loading and all scripts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Final, Literal, TypeAlias

from ioweather.ui.charts import theme as colours
from ioweather.ui.charts.reading import legible

PageTheme: TypeAlias = Literal["auto", "light", "dark"]

_VARIABLES: Final = {
    "paper": colours.BACKGROUND,
    "ink": colours.INK,
    "quiet": colours.SECONDARY,
    "line": colours.GRID,
    "edge": colours.AXIS,
    "accent": colours.SERIES[0],
    "warm": colours.SERIES[1],
}

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'none'; base-uri 'none'; "
    "form-action 'none'"
)

# Everything hangs on one class, so that a fragment inside somebody else's page (a notebook) changes nothing there.
_STYLE: Final = Path(__file__).with_name("page.css").read_text("utf-8")


def html_page(
    title: str, body_sections: Iterable[str], theme: PageTheme = "auto", *, footer: str = "", style: str = ""
) -> str:
    """A whole page from sections of safe markup; `style` is added to that of all pages."""
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta name="color-scheme" content="{"light dark" if theme == "auto" else theme}">',
        f"<title>{escape(title)}</title>",
        style_html(theme),
        f"<style>{style}</style>" if style else "",
    ]
    foot = f"<footer>{footer}</footer>" if footer else ""
    start = ["<!DOCTYPE html>", '<html lang="en">', "<head>", *head, "</head>", '<body class="iow">', "<main>"]
    body = [legible(part) for part in (*start, *body_sections, "</main>", foot)]
    return "\n".join([*body, "</body>", "</html>", ""])


def style_html(theme: PageTheme = "auto") -> str:
    """The style sheet of a page or of a fragment."""
    return f"<style>\n{_STYLE}{_colour_rules(theme)}</style>"


def prose(text: str) -> str:
    """A sentence as markup; what stands between backticks in it is a command."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def json_block(name: str, value: object) -> str:
    """Data for the page's script; a text in it cannot end the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f'<script type="application/json" id="{escape(name)}">{_inert(text)}</script>'


def _inert(text: str) -> str:
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _colour_rules(theme: PageTheme) -> str:
    """Variables of the page and, for the dark, the partner of every colour in a drawing. Paper is always light."""
    light = _root(_VARIABLES) if theme != "dark" else ""
    night = _root({name: colours.DARK[colour] for name, colour in _VARIABLES.items()}) + "".join(
        f'.iow .chart [{kind}="{a}"]{{{kind}:{b}}}' for a, b in colours.DARK.items() for kind in ("fill", "stroke")
    )
    if theme == "light":
        return light
    if theme == "dark":
        return night
    return f"{light}\n@media screen and (prefers-color-scheme:dark){{{night}}}"


def _root(values: dict[str, str]) -> str:
    return ".iow{" + "".join(f"--{name}:{value};" for name, value in values.items()) + "}"
