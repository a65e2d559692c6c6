"""Every source, by name: one line adds one."""

from __future__ import annotations

from ioweather.core.contracts import Source
from ioweather.core.registry import Catalogue

SOURCES: Catalogue[Source] = Catalogue(
    "source",
    {
        "darshan": "ioweather.sources.darshan.rows:DARSHAN",
        "h5lmt": "ioweather.sources.lmt.h5lmt:SOURCE",
        "lmt": "ioweather.sources.lmt.sqlite:SOURCE",
        "tts": "ioweather.sources.lmt.tts:SOURCE",
    },
)
