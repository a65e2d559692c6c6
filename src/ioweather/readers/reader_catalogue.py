"""Every source, by name: one line adds one, and so does an entry point `ioweather.sources` of another package."""

from __future__ import annotations

from typing import Any

from ioweather.core.contracts import Source
from ioweather.core.registry import Catalogue


def _fault(name: str, source: Any) -> str:
    """What makes an object of another package no source."""
    from ioweather.core.tables import TABLES

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
        "collectd": "ioweather.readers.prometheus.monitors:COLLECTD",
        "collectl": "ioweather.readers.devices.collectl:SOURCE",
        "darshan": "ioweather.readers.darshan.darshan_reader:DARSHAN",
        "darshan_export": "ioweather.readers.darshan.parquet_export:SOURCE",
        "diskstats": "ioweather.readers.devices.diskstats:SOURCE",
        "find": "ioweather.readers.scan.find_list:SOURCE",
        "fsstats": "ioweather.readers.scan.fsstats:SOURCE",
        "gpfs": "ioweather.readers.scan.gpfs_list:SOURCE",
        "h5lmt": "ioweather.readers.lmt.hdf5:H5LMT",
        "io500": "ioweather.readers.io500:SOURCE",
        "ior": "ioweather.readers.ior:SOURCE",
        "iostat": "ioweather.readers.devices.iostat:SOURCE",
        "ldms": "ioweather.readers.prometheus.monitors:LDMS",
        "lfs_find": "ioweather.readers.scan.find_list:PATHS",
        "lmt": "ioweather.readers.lmt.database:SOURCE",
        "lsf": "ioweather.readers.lsf:SOURCE",
        "lustre": "ioweather.readers.lustre:SOURCE",
        "mdtest": "ioweather.readers.mdtest:SOURCE",
        "mmperfmon": "ioweather.readers.mmperfmon:SOURCE",
        "mmpmon": "ioweather.readers.gpfs:SOURCE",
        "mountstats": "ioweather.readers.nfs:SOURCE",
        "pbs": "ioweather.readers.pbs:SOURCE",
        "prometheus": "ioweather.readers.prometheus.exposition:SOURCE",
        "rank_details": "ioweather.readers.rank_details:SOURCE",
        "sacct": "ioweather.readers.slurm:SOURCE",
        "sadf": "ioweather.readers.devices.sadf:SOURCE",
        "sge": "ioweather.readers.grid_engine:SOURCE",
        "spool": "ioweather.readers.segments:SOURCE",
        "telegraf": "ioweather.readers.prometheus.monitors:TELEGRAF",
        "tts": "ioweather.readers.lmt.hdf5:TTS",
    },
    group="ioweather.sources",
    fault=_fault,
)
