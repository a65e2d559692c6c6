"""The pages: each comes at once and fetches its slow parts, which the same module answers."""

from __future__ import annotations

from typing import Final

from ioweather.ui.web.pages import data, jobs, storage, studies

ROUTERS: Final = tuple(module.router for module in (storage, jobs, studies, data))
