"""Every source, by name: one line adds one, and so does an entry point `ioweather.sources` of another package."""

from __future__ import annotations

from typing import Any

from ioweather.core.contracts import Source
from ioweather.core.registry import Catalogue


def _fault(name: str, source: Any) -> str:
    """What makes an object of another package no source."""
    from ioweather.tables import TABLES

    lacks = [part for part in ("name", "title", "tables", "detect", "read") if not hasattr(source, part)]
    if lacks:
        return f"it has no {', '.join(lacks)}; name an object, not its class or module"
    if isinstance(source, type):
        return "it is a class; name an object of it"
    if source.name != name:
        return f"it calls itself {source.name!r}"
    unknown = [table for table in source.tables if table not in TABLES]
    return f"there is no table {', '.join(unknown)}" if unknown else ""


SOURCES: Catalogue[Source] = Catalogue(
    "source",
    {
        "collectd": "ioweather.sources.labelled.monitors:COLLECTD",
        "collectl": "ioweather.sources.devices.collectl:SOURCE",
        "darshan": "ioweather.sources.darshan.rows:DARSHAN",
        "darshan_export": "ioweather.sources.darshan.export:SOURCE",
        "diskstats": "ioweather.sources.devices.diskstats:SOURCE",
        "find": "ioweather.sources.scan.find_list:SOURCE",
        "fsstats": "ioweather.sources.scan.fsstats:SOURCE",
        "gpfs": "ioweather.sources.scan.gpfs_list:SOURCE",
        "h5lmt": "ioweather.sources.lmt.hdf5:H5LMT",
        "io500": "ioweather.sources.benchmarks.io500:SOURCE",
        "ior": "ioweather.sources.benchmarks.ior:SOURCE",
        "iostat": "ioweather.sources.devices.iostat:SOURCE",
        "ldms": "ioweather.sources.labelled.monitors:LDMS",
        "lfs_find": "ioweather.sources.scan.find_list:PATHS",
        "lmt": "ioweather.sources.lmt.database:SOURCE",
        "lsf": "ioweather.sources.schedulers.lsf:SOURCE",
        "lustre": "ioweather.sources.lustre.source:SOURCE",
        "mdtest": "ioweather.sources.benchmarks.mdtest:SOURCE",
        "mmperfmon": "ioweather.sources.gpfs.mmperfmon:SOURCE",
        "mmpmon": "ioweather.sources.gpfs.source:SOURCE",
        "mountstats": "ioweather.sources.nfs.source:SOURCE",
        "pbs": "ioweather.sources.schedulers.pbs:SOURCE",
        "prometheus": "ioweather.sources.labelled.prometheus:SOURCE",
        "rank_details": "ioweather.sources.benchmarks.rank_details:SOURCE",
        "sacct": "ioweather.sources.slurm.source:SOURCE",
        "sadf": "ioweather.sources.devices.sadf:SOURCE",
        "sge": "ioweather.sources.schedulers.grid_engine:SOURCE",
        "spool": "ioweather.sources.spool:SOURCE",
        "telegraf": "ioweather.sources.labelled.monitors:TELEGRAF",
        "tts": "ioweather.sources.lmt.hdf5:TTS",
    },
    group="ioweather.sources",
    fault=_fault,
)
