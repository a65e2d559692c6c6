"""Readers of files, ours and those of other packages, by source name.

A reader registers itself where it is defined, by a module-level constant:

    PBS = FileReader("pbs", "PBS accounting", ("jobs",), detect_pbs, read_pbs)

The names are found in the text of the modules, so that no reader is imported before it is used. Entry points
`ioweather.sources` add readers of other packages. For files that no reader reads, `nearest` names a command that makes
a readable one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from ioweather.core.contracts import ReadContext, Source
from ioweather.core.frames import Frame
from ioweather.core.registry import Catalogue
from ioweather.core.tables import TABLES
from ioweather.readers.text_files import plain_head

# `NAME = FileReader("source", ...)` or the same with a class of its own, whose name ends in Reader.
_REGISTRATION: Final = re.compile(r'^([A-Z][A-Z0-9_]*) = \w*Reader\(\s*"(\w+)"', re.MULTILINE)


@dataclass(frozen=True)
class FileReader:
    """One kind of file: how to recognise it, and how to read it."""

    name: str
    title: str
    tables: tuple[str, ...]
    detector: Callable[[bytes, Path], float]
    reading: Callable[[Path, ReadContext], Iterator[tuple[str, Frame]]]

    def __reduce__(self) -> tuple[object, ...]:
        # Our own go to other processes by name: their functions may have none.
        if SOURCES.is_ours(self.name):
            return _source_named, (self.name,)
        return type(self), tuple(getattr(self, each.name) for each in fields(self))

    def detect(self, head: bytes, path: Path) -> float:
        """Return 0 (not this kind) to 1 (surely), from the first bytes; see `core.contracts.Source`."""
        return self.detector(head, path)

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        """Yield (table, frame); see `core.contracts.Source`."""
        return self.reading(path, context)


def registered_readers(folder: Traversable | None = None, package: str = "ioweather.readers") -> dict[str, str]:
    """Source name to 'module:constant' of every reader that a module of the package registers, by name."""
    found: dict[str, str] = {}
    for entry in (folder or resources.files(package)).iterdir():
        if entry.is_dir():
            found |= registered_readers(entry, f"{package}.{entry.name}")
        elif entry.name.endswith(".py"):
            module = f"{package}.{entry.name.removesuffix('.py')}"
            matches = _REGISTRATION.finditer(entry.read_text(encoding="utf-8"))
            found |= {match[2]: f"{module}:{match[1]}" for match in matches}
    return dict(sorted(found.items()))


def _fault(name: str, source: Any) -> str:
    """Why an object of another package cannot be a source; empty if it can."""
    lacks = [part for part in ("name", "title", "tables", "detect", "read") if not hasattr(source, part)]
    if lacks:
        return f"it has no {', '.join(lacks)}; name an object, not its class or module"
    if isinstance(source, type):
        return "it is a class; name an object of it"
    if source.name != name:
        return f"it calls itself {source.name!r}"
    unknown = [table for table in source.tables if table not in TABLES]
    return f"there is no table {', '.join(unknown)}" if unknown else ""


SOURCES: Catalogue[Source] = Catalogue("source", registered_readers, group="ioweather.sources", fault=_fault)


def _source_named(name: str) -> Source:
    return SOURCES[name]


SACCT_COMMAND: Final = (
    "SLURM_TIME_FORMAT=%s sacct -a -P --delimiter=$'\\x1f' "
    "--format=JobID,JobIDRaw,Cluster,UID,User,Account,JobName,State,Submit,Start,End,NNodes,NCPUS,NodeList"
)
# Files that no reader reads, but people bring.
_SACCT = f"{SACCT_COMMAND} > jobs.txt"
_SADF = "sadf -j FILE -- -d -b -u > file.json, with sar's daily file (/var/log/sysstat/saDD)"


_COLLECTL = "collectl -p FILE -scdD -P -oU > collectl.txt"
_DARSHAN = "darshan-parser JOB.darshan > job.txt"
_IOSTAT = "S_TIME_FORMAT=ISO iostat -xtky 60"
# A pattern at the beginning of any line, what such a text is, and what to run instead.
_TEXTS = (
    (r">>> \d{9,10}[.\d]{0,9} <<<", "a raw file of collectl", _COLLECTL),
    (r"# Collectl:", "a file of collectl without disks or CPUs", _COLLECTL),
    (r" {0,20}JobID {1,80}\S", "sacct as people read it, with columns cut to their width", _SACCT),
    (r" {0,20}JOBID {1,20}(?:PARTITION|USER)", "a list of waiting and running jobs, not accounting", _SACCT),
    (r"JobId=\d{1,18} ", "scontrol's description of jobs, not accounting", _SACCT),
    (r"qname {3,20}\S", "what qacct prints", "ioweather ingest $SGE_ROOT/default/common/accounting"),
    (r"Job Id: ", "what qstat -f prints", "ioweather ingest PBS_HOME/server_priv/accounting/YYYYMMDD"),
    (r"Job <\d{1,18}", "what bhist or bjobs -l prints", "ioweather ingest LSB_SHAREDIR/CLUSTER/logdir/lsb.acct"),
    (r"procs -{3,20}memory", "what vmstat prints: it has no devices", _IOSTAT),
    (r'"(?:pcp )?[Dd](?:stat|ool) ', "what dstat or dool writes", _IOSTAT),
    (r"[Ll]inux \S{1,99} \(\S{1,255}\)", "text of sar or of another program of sysstat", _SADF),
    (r"# DXT, file_id:", "a trace of darshan-dxt-parser", _DARSHAN),
    (r"total_[A-Z]{1,9}_\w{1,60}: ", "sums of darshan-parser, not its records", _DARSHAN),
    (
        r"(?i:create table) ",
        "the text of a database",
        "load it, then name the server: ioweather ingest mysql://USER@HOST/filesystem_NAME",
    ),
)
_BYTES = (
    (b"PAR1", "a Parquet file", "ioweather ingest --as TABLE --select map.sql FILE (docs/how-to/any-csv.md)"),
    (b"\x96\xd5", "a daily file of sar", _SADF),  # sa.h: SYSSTAT_MAGIC, in either byte order
    (b"\xd5\x96", "a daily file of sar", _SADF),
    (b"PK\x03\x04", "a zip archive", "unzip it, then ingest its folder"),
    (
        b"\x89HDF\r\n\x1a\n",
        "an HDF5 file, but neither pyLMT's nor TOKIO's",
        "ioweather ingest daily .h5lmt files of pyLMT or TOKIO time series",
    ),
    (b"\xfd7zXZ\x00", "compressed by xz", "xz -d FILE"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "zstd -d FILE"),
)
_TAR_AT = 257


def nearest(head: bytes) -> tuple[str, str] | None:
    """What a file is that no reader reads, and what to run instead; None where that is not known."""
    for magic, what, remedy in _BYTES:
        if head.startswith(magic):
            return what, remedy
    text = plain_head(head)
    if text[_TAR_AT : _TAR_AT + 5] == "ustar":
        return "a tar archive", "unpack it, then ingest its folder"
    found = ((what, remedy) for sign, what, remedy in _TEXTS if re.search(f"^{sign}", text, re.MULTILINE))
    return next(found, None)
