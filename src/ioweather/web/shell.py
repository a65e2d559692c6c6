"""The frame around every page: navigation, choice of facility, main part. No inline script and no inline style."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Final
from urllib.parse import urlencode

from fastapi.responses import HTMLResponse

from ioweather._version import __version__
from ioweather.figures.reading import legible
from ioweather.web.facilities import MAIN, Facilities
from ioweather.web.topics import TOPICS


class Markup(HTMLResponse):
    """Names come from others: none of them may turn a page around."""

    def render(self, content: str | bytes) -> bytes:
        text = content.decode() if isinstance(content, bytes) else content
        return legible(text).encode()


NAVIGATION: Final = (
    ("/", "Now"),
    ("/job", "Why / job"),
    *((f"/{topic.slug}", topic.title) for topic in TOPICS),
    ("/exhibits", "Exhibits"),
    ("/sql", "SQL"),
)


@dataclass(frozen=True)
class Place:
    """Where the reader is: the facility that is shown, and the page."""

    facilities: Facilities
    lake: str
    path: str
    sees_sql: bool = True

    def link(self, path: str, **query: str) -> str:
        """An address that stays in the facility."""
        kept = {} if self.lake == MAIN else {"lake": self.lake}
        text = urlencode({**kept, **{name: value for name, value in query.items() if value}})
        return f"{path}{'&' if '?' in path else '?'}{text}" if text else path

    @property
    def field(self) -> str:
        """What a form carries along to stay in the facility."""
        return "" if self.lake == MAIN else f'<input type="hidden" name="lake" value="{escape(self.lake)}">'


def page(place: Place, title: str, body: str) -> str:
    links = "".join(
        f'<li><a href="{escape(place.link(path))}"{current(path == place.path)}>{escape(text)}</a></li>'
        for path, text in NAVIGATION
        if path != "/sql" or place.sees_sql
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)} – ioweather</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/figures.css">
<link rel="stylesheet" href="/static/app.css">
<script type="module" src="/static/app.js"></script>
<script type="module" src="/static/figures.js"></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header>
<p class="brand"><a href="{escape(place.link("/"))}">ioweather</a></p>
{_switch(place)}
<nav aria-label="Pages"><ul>{links}</ul></nav>
</header>
<main id="main" class="iow" tabindex="-1">
{body}
</main>
<footer class="foot">ioweather {escape(__version__)}. Times are UTC. <a href="/api/v1/openapi.json">API</a></footer>
</body>
</html>
"""


def current(here: bool, what: str = "page") -> str:
    return f' aria-current="{what}"' if here else ""


def _switch(place: Place) -> str:
    """Which facility: a form, so that it works without a script too."""
    names = {name: place.facilities.title(name) for name in place.facilities.lakes}
    if len(names) < 2:
        return f'<p class="facility">{escape(names.get(place.lake, place.lake))}</p>'
    options = "".join(
        f'<option value="{escape(name)}"{" selected" if name == place.lake else ""}>{escape(title)}</option>'
        for name, title in names.items()
    )
    return (
        f'<form class="facility" method="get" action="{escape(place.path)}"><label for="lake">Facility</label> '
        f'<select id="lake" name="lake" data-submit>{options}</select> <button>Show</button></form>'
    )


def lazy(address: str, waiting: str, *, every_seconds: int = 0, label: str = "", live: str = "") -> str:
    """A part that the page fetches when it is reached, and again as `live` tells or so often; without a script, a link
    to it."""
    again = f' data-every="{every_seconds}"' if every_seconds else ""
    again += f' data-live="{escape(live)}"' if live else ""
    named = f' aria-label="{escape(label)}"' if label else ""
    return (
        f'<div class="part" data-fragment="{escape(address)}"{again}{named} aria-busy="true">'
        f'<p class="quiet waiting">{escape(waiting)}</p>'
        f'<noscript><p><a href="{escape(address)}">Show it</a></p></noscript></div>'
    )


def problem(message: str, hint: str = "") -> str:
    return f'<div class="problem" role="status"><p><strong>{escape(message)}</strong> {escape(hint)}</p></div>'
