"""Sums of sealed days in small Parquet files next to the seal: over all components by step, and per component by hour.

Only groups on a regular grid have sums. A row is like one of `series`, with the sum of `n` values of `interval_ns`.
Other steps and shares of coverage are computed from these rows. The name of a file says for which files of `series` it
was made, and ends with its own digest: a missing, damaged or outdated file is not used.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

import duckdb

from ioweather.core.safe_files import sync_to_disk
from ioweather.core.units import HOUR_NS
from ioweather.lake import layout
from ioweather.lake.convert import literal
from ioweather.lake.table_files import content_digest, damaged_files

Kind: TypeAlias = Literal["steps", "hours"]
# No metric is below zero. Lakes of before rows were checked may have such values: they count as missing.
POSSIBLE: Final = "value >= 0"


def write_totals(con: duckdb.DuckDBPyConnection, root: Path, day: str, uris: Iterable[str], rows: str) -> None:
    """`rows` are `inventory.numbered_rows` of the day."""
    group = "day, source, system, component_kind, metric"
    for stem, component, start, condition in (
        (_stem(day, "steps", uris), "NULL::VARCHAR", "start_ns", "TRUE"),
        (_stem(day, "hours", uris), "component", f"start_ns - start_ns % {HOUR_NS}", f"{HOUR_NS} % interval_ns = 0"),
    ):
        draft = layout.seals_dir(root) / f".{stem}.{os.getpid()}"
        try:
            con.execute(
                f"""COPY (SELECT {group}, {component} AS component, {start} AS start_ns, interval_ns,
                    sum(value) AS value, count(*) AS n, 0 AS quality
                    FROM ({rows}) WHERE group_regular AND {POSSIBLE} AND {condition} GROUP BY ALL ORDER BY metric, 7)
                TO {literal(draft)} (FORMAT parquet, COMPRESSION zstd)"""
            )
            sync_to_disk(draft, 0o444)
            draft.rename(draft.with_name(f"{stem}-{content_digest(draft)}.zstd.parquet"))
        finally:
            draft.unlink(missing_ok=True)


def find_totals(root: Path, kind: Kind, days: Mapping[str, Iterable[str]]) -> dict[str, Path]:
    """The file with the sums of each of these days, given with their files of `series`, where there is one."""
    wanted = {_stem(day, kind, uris): day for day, uris in days.items()}
    folder = layout.seals_dir(root)
    paths = [*folder.glob(f"*.{kind}-*.zstd.parquet")] if wanted and folder.is_dir() else []
    found = {day: path for path in paths if (day := wanted.get(path.name.rpartition("-")[0]))}
    return {day: path for day, path in found.items() if not damaged_files([path])}


def _stem(day: str, kind: Kind, uris: Iterable[str]) -> str:
    names = " ".join(sorted(uri.rsplit("/", 1)[-1] for uri in uris))
    return f"{day}.{kind}-{hashlib.blake2b(names.encode(), digest_size=8).hexdigest()}"
