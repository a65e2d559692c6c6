"""Reading a file into a dictionary by natural key, and a writer of iostat's text of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.tables import TABLES
from ioweather.readers.reader_catalogue import SOURCES

Rows = dict[tuple[Any, ...], float | None]
KEY = TABLES["series"].key


def read_rows(name: str, path: Path, **context: Any) -> Rows:
    """All rows by natural key; a key that comes twice is a failure."""
    if isinstance(context.get("zone"), str):
        context["zone"] = ZoneInfo(context["zone"])
    rows: Rows = {}
    for table, frame in SOURCES[name].read(path, ReadContext(**context)):
        assert table == "series"
        assert tuple(frame) == TABLES["series"].names
        for record in frame.records():
            key = tuple(record[column] for column in KEY)
            assert key not in rows, f"twice: {key}"
            rows[key] = record["value"]
    return rows


def rows_of(rows: Rows, *, metric: str, component: str | None = None, kind: str = "device") -> dict[int, float | None]:
    """start_ns to value of one metric, in the order of time."""
    return {
        key[0]: value
        for key, value in sorted(rows.items(), key=lambda item: item[0][0])
        if key[5] == metric and key[3] == kind and component in (None, key[4])
    }


def same_value(a: float | None, b: float | None) -> bool:
    return a is b is None or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12))


EXTENDED = (
    "r/s", "rkB/s", "rrqm/s", "%rrqm", "r_await", "rareq-sz", "w/s", "wkB/s", "wrqm/s", "%wrqm", "w_await", "wareq-sz",
    "d/s", "dkB/s", "drqm/s", "%drqm", "d_await", "dareq-sz", "f/s", "f_await", "aqu-sz", "%util",
)  # fmt: skip


def write_iostat(
    reports: Sequence[tuple[str, dict[str, Sequence[float]]]],
    *,
    columns: Sequence[str] = EXTENDED,
    host: str = "oss1",
    without_since_boot: bool = True,
    cpu: Sequence[float] | None = (1.0, 2.0, 3.0, 4.0, 5.0, 85.0),
) -> str:
    """What iostat -x -t [-y] of sysstat 12 prints: (time stamp, device to numbers) for each report."""
    date = reports[0][0].partition(" ")[0]
    text = f"Linux 6.1.0 ({host}) \t{date} \t_x86_64_\t(2 CPU)\n\n"
    text += "\n" if without_since_boot else ""
    for stamp, devices in reports:
        text += f"{stamp}\n" if stamp else ""
        if cpu is not None:
            text += "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n        "
            text += " ".join(f"{value:7.2f}" for value in cpu) + "\n\n"
        text += "Device       " + "".join(f" {column:>8}" for column in columns) + "\n"
        for device, numbers in devices.items():
            text += f"{device:<13}" + "".join(f" {number:8.2f}" for number in numbers) + "\n"
        text += "\n\n"
    return text


@pytest.fixture
def read() -> Callable[..., Rows]:
    return read_rows


@pytest.fixture
def pick() -> Callable[..., dict[int, float | None]]:
    return rows_of


@pytest.fixture
def iostat_text() -> Callable[..., str]:
    return write_iostat
