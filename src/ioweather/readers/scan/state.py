"""What a scan must remember to go on after an interruption: directories to walk, files with several names, the tally.

One SQLite file; a checkpoint is a commit. Directories that a walker has taken stay in it until their result is in, so
that a commit at any moment is a consistent state: nothing is lost and nothing counted twice.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from ioweather.core.errors import LakeError
from ioweather.readers.scan.tally import LinkRecord, Tally
from ioweather.readers.scan.walker import Item

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, parent BLOB, depth INTEGER, names BLOB);
CREATE TABLE IF NOT EXISTS arriving (task INTEGER, parent BLOB, depth INTEGER, names BLOB);
CREATE TABLE IF NOT EXISTS links (
    device INTEGER, inode INTEGER, uid INTEGER, gid INTEGER, project TEXT, size INTEGER, capacity INTEGER,
    mtime INTEGER, atime INTEGER, ctime INTEGER, links INTEGER, depth INTEGER, extension TEXT,
    PRIMARY KEY (device, inode)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT);
"""
# Of several names of a file the first in this order says depth, extension and project, whoever was faster.
_ADD_LINK: Final = """
INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET depth = excluded.depth, extension = excluded.extension, project = excluded.project
WHERE (excluded.depth, excluded.extension, excluded.project) < (links.depth, links.extension, links.project)
"""
# A row of many names is cut, so that several walkers can share the directories of one.
_NAMES_PER_ROW, _ROWS = 8, 128


class ScanState:
    """Used by one process. Without a path it lives in a temporary file and is gone at the end."""

    def __init__(self, path: Path | None = None) -> None:
        # No locks of SQLite's own: they fail on some network file systems; the caller holds one.
        place = f"{path.absolute().as_uri()}?nolock=1" if path else ""
        try:
            self._db = sqlite3.connect(place, uri=path is not None, isolation_level=None)
            self._db.executescript(_SCHEMA)
            self._db.execute("BEGIN")
            # What arrived of tasks that never ended will arrive again.
            self._db.execute("DELETE FROM arriving")
        except sqlite3.Error as error:
            raise LakeError(
                f"{path}: the state of a scan cannot be kept there: {error}.", hint="Remove the file, or use --restart."
            ) from None
        self._taken: set[int] = set()

    def __del__(self) -> None:
        # Whoever drops the state is done with it; an open database would be complained of.
        if hasattr(self, "_db"):
            self._db.close()

    def note(self, name: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, json.dumps(value)))

    def noted(self, name: str) -> Any:
        row = self._db.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return json.loads(row[0]) if row else None

    def begin(self, item: Item) -> None:
        self.note("version", _VERSION)
        self._insert([item])

    @property
    def usable(self) -> bool:
        """Whether there is a state in it, and one that this version wrote."""
        return bool(self.noted("version") == _VERSION)

    def take(self, directories: int) -> tuple[list[int], list[Item]]:
        """Up to so many directories, the latest first: that keeps the list of what is left short."""
        ids: list[int] = []
        items: list[Item] = []
        found = 0
        # Those that are taken lie near the end too; there are never more than the workers hold.
        rows = self._db.execute("SELECT id, parent, depth, names FROM items ORDER BY id DESC")
        for row_id, parent, depth, names in rows:
            if row_id in self._taken:
                continue
            item = Item(os.fsdecode(parent), depth, tuple(os.fsdecode(names).split("\0")))
            if items and found + len(item.names) > directories:
                break
            ids.append(row_id)
            items.append(item)
            found += len(item.names)
        rows.close()
        self._taken.update(ids)
        return ids, items

    def arrived(self, task: int, items: Iterable[Item]) -> None:
        """Directories that a task found, provisional until it is done."""
        self._db.executemany("INSERT INTO arriving VALUES (?, ?, ?, ?)", ((task, *row) for row in _rows(items)))

    def done(self, task: int, ids: list[int]) -> None:
        """The result of a task is in the tally: what it took is walked, what it found is to walk."""
        self._db.executemany("DELETE FROM items WHERE id = ?", ((row_id,) for row_id in ids))
        self._taken.difference_update(ids)
        self._db.execute(
            "INSERT INTO items (parent, depth, names) SELECT parent, depth, names FROM arriving WHERE task = ?", (task,)
        )
        self._db.execute("DELETE FROM arriving WHERE task = ?", (task,))

    def lost(self, task: int, ids: list[int]) -> None:
        """The process of a task died: somebody else takes its directories."""
        self._taken.difference_update(ids)
        self._db.execute("DELETE FROM arriving WHERE task = ?", (task,))

    def left(self, most: int) -> int:
        """Rows that nobody has taken, counted up to `most`."""
        rows = self._db.execute("SELECT count(*) FROM (SELECT 1 FROM items LIMIT ?)", (most + len(self._taken),))
        return max(0, int(rows.fetchone()[0]) - len(self._taken))

    def add_links(self, records: Iterable[LinkRecord]) -> None:
        self._db.executemany(_ADD_LINK, ((signed(r.device), signed(r.inode), *r[2:]) for r in records))

    def links(self) -> Iterator[LinkRecord]:
        return (LinkRecord(*row) for row in self._db.execute("SELECT * FROM links"))

    def checkpoint(self, tally: Tally) -> None:
        self.note("tally", tally.to_json())
        self._db.execute("COMMIT")
        self._db.execute("BEGIN")

    def tally(self) -> Tally:
        return Tally.from_json(self.noted("tally"))

    def close(self) -> None:
        """What is not committed is dropped."""
        self._db.close()

    def _insert(self, items: Iterable[Item]) -> None:
        self._db.executemany("INSERT INTO items (parent, depth, names) VALUES (?, ?, ?)", _rows(items))


def _rows(items: Iterable[Item]) -> Iterator[tuple[bytes, int, bytes]]:
    for item in items:
        each = min(_NAMES_PER_ROW, 1 + len(item.names) // _ROWS)
        for first in range(0, len(item.names), each):
            names = item.names[first : first + each]
            yield os.fsencode(item.parent), item.depth, os.fsencode("\0".join(names))


def signed(number: int) -> int:
    """64 bits read as signed: SQLite and the lake have no others."""
    return number - (1 << 64) if number >= 1 << 63 else number
