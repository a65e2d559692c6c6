"""Take a file back out: the rows that it brought, and its entry in the ledger, so that it can be read again, and right.

Files that came in together share their rows' `ingest_id`, and go together. Rows go first and the ledger last: what
interrupts this, running it again completes it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ioweather.core.errors import LakeError, UsageError
from ioweather.core.tables import TABLES
from ioweather.lake import layout
from ioweather.lake.appends import delete_rows
from ioweather.lake.convert import literal
from ioweather.lake.lake import Lake

# Others are made of these, and would keep what they held.
_ROLLED_UP = ("responses", "scan_entries")


@dataclass(frozen=True)
class Forgettable:
    """What would go: files (path to digest) and rows per table."""

    files: dict[str, str]
    rows: dict[str, int]
    ingest_ids: tuple[str, ...]


def find(lake: Lake, name: str) -> Forgettable:
    """What came in with the file of this path or digest."""
    with lake.snapshot() as snapshot:
        wanted = f"path = {literal(str(Path(name).absolute()))} OR digest = {literal(name)}"
        # Every entry, not the newest alone: a file that was read again brought its rows the first time.
        entries = snapshot.pinned["ingests"].scan()
        newest = f"SELECT digest FROM ({entries}) WHERE {wanted} ORDER BY ingested_ns DESC LIMIT 1"
        found = snapshot.bare.execute(
            f"SELECT string_agg(rows_ingest_ids, ',') FROM ({entries}) WHERE digest = ({newest}) GROUP BY digest"
        ).fetchall()
        if not found:
            raise UsageError(f"The lake has read no file {name}.", hint="Name it as it was ingested, or by its digest.")
        if found[0][0] is None:
            raise LakeError(
                f"Which rows {name} brought was not noted: it brought none, or came in by an older ioweather.",
                hint="Read it again with `ioweather ingest --again`, or make a new lake.",
            )
        ids = tuple(found[0][0].split(","))
        together = f"list_has_any(string_split(rows_ingest_ids, ','), [{_listed(ids)}])"
        files = dict(
            snapshot.bare.execute(f"SELECT path, digest FROM ({entries}) WHERE {together} ORDER BY path").fetchall()
        )
        rows = {}
        for table, pinned in snapshot.pinned.items():
            if pinned.uris and table != "ingests":
                counted = f"SELECT count(*) FROM ({pinned.scan()}) WHERE ingest_id IN ({_listed(ids)})"
                if count := snapshot.bare.execute(counted).fetchall()[0][0]:
                    rows[table] = int(count)
    return Forgettable(files, rows, ids)


def forget(lake: Lake, found: Forgettable) -> None:
    if rolled := [table for table in _ROLLED_UP if table in found.rows]:
        raise LakeError(f"Rows of {rolled[0]} cannot be taken back: sums were made of them.")
    layout.lake_directory(lake.root).close()
    for table in found.rows:
        _delete(lake, table, f"ingest_id IN ({_listed(found.ingest_ids)})")
    _delete(lake, "ingests", f"digest IN ({_listed(found.files.values())})")


def forget_runs(lake: Lake, digests: Collection[str]) -> None:
    """Take out what is kept of these runs; their files stay in the ledger. `applications` goes last, which tells that
    they are there."""
    if digests:
        named = [name for name, spec in TABLES.items() if "log_digest" in spec.names]
        for name in sorted(named, key=lambda name: name == "applications"):
            _delete(lake, name, f"log_digest IN ({_listed(digests)})")


def _delete(lake: Lake, name: str, condition: str) -> None:
    delete_rows(layout.tables_dir(lake.root), TABLES[name], condition)


def _listed(texts: Collection[str]) -> str:
    return ", ".join(literal(text) for text in texts)
