"""The pages, one module each: the page comes at once and fetches its slow parts, which the module answers too."""

from __future__ import annotations

from typing import Final

from ioweather.web.pages import exhibits, health, jobs, now, projects, sql, subjects

ROUTERS: Final = tuple(module.router for module in (now, jobs, projects, subjects, health, exhibits, sql))
