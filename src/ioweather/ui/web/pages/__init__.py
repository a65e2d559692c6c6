"""The pages, one module each: the page comes at once and fetches its slow parts, which the module answers too."""

from __future__ import annotations

from typing import Final

from ioweather.ui.web.pages import (
    claims,
    events,
    exhibits,
    files,
    health,
    jobs,
    now,
    overview,
    people,
    places,
    search,
    sql,
    subjects,
    who,
)

_PAGES: Final = (
    overview,
    now,
    who,
    jobs,
    files,
    places,
    people,
    events,
    search,
    subjects,
    health,
    exhibits,
    claims,
    sql,
)
ROUTERS: Final = tuple(module.router for module in _PAGES)
