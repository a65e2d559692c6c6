"""Every source, by name: one line adds one."""

from __future__ import annotations

from ioweather.core.contracts import Source
from ioweather.core.registry import Catalogue

SOURCES: Catalogue[Source] = Catalogue(
    "source",
    {
        "collectl": "ioweather.sources.devices.collectl:SOURCE",
        "darshan": "ioweather.sources.darshan.rows:DARSHAN",
        "diskstats": "ioweather.sources.devices.diskstats:SOURCE",
        "h5lmt": "ioweather.sources.lmt.h5lmt:SOURCE",
        "io500": "ioweather.sources.benchmarks.io500:IO500",
        "ior": "ioweather.sources.benchmarks.ior:IOR",
        "iostat": "ioweather.sources.devices.iostat:SOURCE",
        "lmt": "ioweather.sources.lmt.sqlite:SOURCE",
        "mdtest": "ioweather.sources.benchmarks.mdtest:MDTEST",
        "sadf": "ioweather.sources.devices.sadf:SOURCE",
        "tts": "ioweather.sources.lmt.tts:SOURCE",
    },
)
