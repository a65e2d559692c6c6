"""The lake that a question reads, opened once and on first use. A log alone loads no database."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ioweather.core.facility import Facility
from ioweather.core.safe_files import default_lake_dir
from ioweather.lake import layout

if TYPE_CHECKING:
    from ioweather.lake.lake import Lake
    from ioweather.lake.snapshot import Snapshot


class Place:
    """`asked` is a lake, its directory, or None: the person's own, where there is one."""

    def __init__(self, asked: Lake | str | os.PathLike[str] | None, until: ExitStack) -> None:
        self._asked = asked
        self._until = until
        self.opened: Snapshot | None = None

    @property
    def was_named(self) -> bool:
        return self._asked is not None

    @property
    def is_there(self) -> bool:
        """Whether there is a lake to open; opening a named lake that is missing is an error."""
        return self.was_named or layout.is_lake(default_lake_dir())

    @property
    def directory(self) -> Path | None:
        if self._asked is None:
            return default_lake_dir() if self.is_there else None
        return Path(self._asked) if isinstance(self._asked, (str, os.PathLike)) else self._asked.root

    @cached_property
    def lake(self) -> Lake:
        from ioweather.lake.lake import open_lake

        if self._asked is None or isinstance(self._asked, (str, os.PathLike)):
            return open_lake(self._asked)
        return self._asked

    @property
    def snapshot(self) -> Snapshot:
        if self.opened is None:
            self.opened = self._until.enter_context(self.lake.snapshot())
        return self.opened

    def snapshot_if_there(self) -> Snapshot | None:
        return self.snapshot if self.is_there else None

    @property
    def facility(self) -> Facility:
        """Of a log alone nothing is known of where it ran."""
        if self.opened is not None:
            return self.opened.facility
        is_lake = self.was_named and self.directory is not None and layout.is_lake(self.directory)
        return self.lake.facility if is_lake else Facility()


def lake_at(lake: Lake | str | os.PathLike[str] | None, *, create: bool = False) -> Lake:
    """A lake, or the one in that directory; None is the person's own."""
    from ioweather.lake.lake import Lake, open_lake  # a log alone is shown without the lake's libraries

    return lake if isinstance(lake, Lake) else open_lake(lake, create=create)
