"""Rows are written where they were read, if they are many: what goes to the one process that commits is the list of
files. Few rows go to it as they are, and become one file with those of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from ioweather.core.errors import IoweatherError
from ioweather.core.frames import Frame
from ioweather.core.units import DAY_NS
from ioweather.store.layout import lake_directory, lake_marker, tables_dir
from ioweather.tables import TABLES

if TYPE_CHECKING:
    from ioweather.store.appends import Staged

Frames: TypeAlias = "dict[tuple[str, str], list[Frame | Staged]]"  # by source and table

# Of a day and table. To write a file of a hundred columns takes 25 ms and as much for each 1,000 rows.
_ROWS_WORTH_A_FILE: Final = 500
# Tables of which more is made while the rows are at hand, or whose rows are compared with those that are there.
_LEFT_TO_THE_WRITER: Final = frozenset({"responses", *(name for name, spec in TABLES.items() if spec.revisable)})


@dataclass(frozen=True)
class Staging:
    """The lake's directory as the writer sees it, and what tells whether a worker sees the same one."""

    root: Path
    marker: bytes

    @classmethod
    def of(cls, root: Path) -> Staging:
        return cls(root.absolute(), lake_marker(root).read_bytes())

    def is_here(self) -> bool:
        """Whether this machine has the lake, and may write to it."""
        try:
            lake_directory(self.root).close()
            return Staging.of(self.root) == self
        except (OSError, IoweatherError):
            return False


def staged(made: Mapping[tuple[str, str], Frame], staging: Staging | None) -> Frames:
    """The rows that a worker read, or the files that they are in now. Of a source that brought texts of logs all rows
    are given back: the lake may have these runs in a fuller form, which the writer looks for."""
    texts = {source for (source, _), rows in made.items() if "form" in rows and rows.known("form").any()}
    many = {
        key
        for key, rows in made.items()
        if staging and key[0] not in texts and key[1] not in _LEFT_TO_THE_WRITER and _are_many(key[1], rows)
    }
    found: Frames = {key: [rows] for key, rows in made.items() if key not in many}
    if staging and many:
        from ioweather.store.appends import stage  # loads DuckDB and Delta
        from ioweather.store.lake import new_ingest_id

        is_here, ingest_id = staging.is_here(), new_ingest_id()
        for key in sorted(many):
            rows, spec = made[key], TABLES[key[1]]
            found[key] = [stage(tables_dir(staging.root), spec, rows, key[0], ingest_id) if is_here else rows]
    return found


def _are_many(table: str, rows: Frame) -> bool:
    if rows.rows < _ROWS_WORTH_A_FILE:
        return False
    days = rows.ints(TABLES[table].time) // DAY_NS
    return rows.rows >= int(np.count_nonzero(np.bincount(days - days.min()))) * _ROWS_WORTH_A_FILE
