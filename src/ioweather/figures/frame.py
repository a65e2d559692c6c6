"""The frame of every HTML page: one file, no address outside it, light and dark, on a phone and on paper.

Pages hold markup that was made by this package; everything that comes from data passes `html.escape`. The content
security policy forbids all loading and all scripts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from typing import Final, Literal, TypeAlias

from ioweather.figures import theme as colours
from ioweather.figures.reading import legible

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
_STYLE: Final = """
.iow{background:var(--paper);color:var(--ink);overflow-wrap:break-word;
 font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",Arial,sans-serif}
.iow *{box-sizing:border-box}
body.iow{margin:0 auto;max-width:50rem;padding:1rem}
.iow h1{font-size:1.5rem;line-height:1.25;margin:.2rem 0 .6rem}.iow h2{font-size:1.15rem;margin:2rem 0 .5rem}
.iow h3{font-size:1rem;margin:1.4rem 0 .4rem}.iow h4{font-size:.9rem;margin:1.2rem 0 .3rem}.iow p{margin:.4rem 0}
.iow .kicker,.iow .quiet,.iow footer{color:var(--quiet);font-size:.875rem}
.iow h1,.iow h2,.iow h3,.iow h4{color:var(--ink);font-weight:600}
.iow section.exhibit+section.exhibit,.iow section.later{border-top:1px solid var(--line);margin-top:2.5rem;
 padding-top:1rem}
.iow section.exhibit>.kicker+h2{margin-top:.2rem}
.iow ul{padding-left:1.2rem;margin:.4rem 0}.iow li{margin:.25rem 0}
.iow .findings{list-style:none;padding:0}
.iow .findings li{border-left:3px solid var(--edge);padding:.1rem 0 .1rem .7rem;margin:.5rem 0}
.iow .findings .supported{border-color:var(--accent)}
.iow .findings .refuted,.iow .findings .alarm{border-color:var(--warm)}
.iow .tag{font-size:.75rem;font-weight:600;text-transform:uppercase;letter-spacing:.03em;color:var(--quiet);
 margin-right:.5em}
.iow .scroll{overflow-x:auto;max-width:100%;margin:.6rem 0 1.4rem}
.iow table{border-collapse:collapse;font-size:.875rem;color:inherit}
.iow caption{text-align:left;font-weight:600;padding:.2rem 0;color:var(--ink)}
.iow th,.iow td{padding:.25rem .9rem .25rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
.iow thead th{color:var(--quiet);font-weight:600;border-bottom-color:var(--edge)}
.iow tbody th{font-weight:400;min-width:7rem}
.iow .time{white-space:nowrap}
.iow .number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.iow .facts td.number{font-weight:600}
.iow .groups:has(>:nth-child(2)){columns:34rem;column-gap:2rem}.iow .groups>div{break-inside:avoid}
.iow .groups>div:first-child>:first-child{margin-top:.6rem}
.iow code{font-size:.92em;background:var(--line);border-radius:.2rem;padding:0 .25em}
.iow .bar{width:7rem;height:.6rem;vertical-align:middle}.iow .track{fill:var(--line)}.iow .share{fill:var(--accent)}
.iow figure{margin:.6rem 0 1.2rem}.iow figure svg{max-width:100%;height:auto;display:block}
.iow figure>.scroll{margin:0}
.iow .narrow{display:none}
@media screen and (max-width:699px){.iow .wide{display:none}.iow .narrow{display:block}.iow h1{font-size:1.3rem}
 .iow figure>.scroll svg{max-width:none}}
.iow details{font-size:.875rem;margin:.4rem 0}.iow summary{cursor:pointer;color:var(--quiet)}
.iow dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem .9rem;margin:.4rem 0}.iow dt{color:var(--quiet)}
.iow dd{margin:0;overflow-wrap:anywhere}
.iow footer{border-top:1px solid var(--line);margin-top:2.5rem;padding-top:.6rem}
@media (max-width:420px){.iow .facts .bar{width:3.5rem}.iow .facts th{min-width:4.5rem}
 .iow .facts td.number{white-space:normal}
 .iow dl{grid-template-columns:1fr}.iow dd{margin-bottom:.3rem}}
@media print{body.iow{max-width:none;padding:0;font-size:10pt}.iow figure,.iow tr,.iow .findings li{break-inside:avoid}
 .iow h2,.iow h3{break-after:avoid}.iow .scroll{overflow:visible}.iow details{display:none}}
"""


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
    return f"<style>{_STYLE}{_colour_rules(theme)}</style>"


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
