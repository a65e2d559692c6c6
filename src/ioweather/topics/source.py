"""The lake or log that a question reads, and the provenance of results."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from ioweather._version import __version__
from ioweather.core.clock import now_ns
from ioweather.core.contracts import ALL_TIME, Need, Params, Period, StudyData
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.results import Provenance
from ioweather.lake.lake import Place

if TYPE_CHECKING:
    from ioweather.core.frames import Frame
    from ioweather.core.results import Cell
    from ioweather.lake.lake import Lake
    from ioweather.lake.snapshot import Snapshot


def standing_caveats(facility: Facility) -> tuple[str, ...]:
    return ("This facility is simulated.",) if facility.simulated else ()


def of_people(tables: Collection[str]) -> bool:
    """Whether one of the tables has rows of users, which not all users may see."""
    from ioweather.lake.snapshot import OF_THE_FACILITY  # a log alone needs no database

    return bool(set(tables) - OF_THE_FACILITY)


def provenance_of(
    snapshot: Snapshot | None, used: Collection[str], values: Mapping[str, Any], period: Period, *, own_rows: bool
) -> Provenance:
    """`used` are the tables that were read; `own_rows`: of people only rows of the one who asked. Without a lake only
    the parameters and the software are known."""
    params = {**values, **({} if period == ALL_TIME else {"from_ns": period[0], "to_ns": period[1]})}
    if snapshot is None:
        return Provenance(params=params, software_version=__version__, made_ns=now_ns())
    tables = {name: snapshot.pinned[name] for name in snapshot.pinned if name in used}
    versions = {name: files.version for name, files in tables.items() if files.version is not None}
    if own_rows and snapshot.owner is not None:
        params["rows_of"] = snapshot.owner.user  # one person's exhibit is not another's
    digest = hashlib.sha256(
        json.dumps([sorted(snapshot.pinned[name].uris) for name in sorted(versions)]).encode()
    ).hexdigest()[:16]
    return Provenance(
        lake=str(snapshot.root),
        table_versions=versions,
        params=params,
        facility_digest=snapshot.facility.digest,
        input_digest=digest,
        software_version=__version__,
        made_ns=now_ns(),
    )


T = TypeVar("T")


# Results that several questions about one job share, by the function that makes them.
SharedResults: TypeAlias = "dict[Callable[[DataSource, Params], Any], Any]"


class DataSource:
    """What a question reads, and what it has read so far.

    `reads_files`: paths may be opened, since they are those of the person who asks. `tables` are those that the answer
    depends on, for its provenance; a question that reads fewer than it declares sets them. `own_rows` is set if rows
    of the asking user alone were read where all users' rows would give another answer. `reads_agents`: the answer is
    about measurements of this machine, whatever the facility of the lake.
    """

    def __init__(
        self,
        lake: Lake | str | os.PathLike[str] | None,
        until: ExitStack,
        period_ns: Period = ALL_TIME,
        *,
        reads_files: bool = True,
        shared: SharedResults | None = None,
    ) -> None:
        self.place = Place(lake, until)
        self.period_ns = period_ns
        self.reads_files = reads_files
        self.tables: Collection[str] = ()
        self.own_rows = False
        self.reads_agents = False
        self.is_compared = False
        self.log_params: set[str] = set()
        self.log_digests: list[str] = []
        self.file_digests: list[str] = []
        self._shared: SharedResults = {} if shared is None else shared

    @property
    def snapshot(self) -> Snapshot:
        """The lake as it was when it was first read."""
        return self.place.snapshot

    @property
    def facility(self) -> Facility:
        """The facility of the lake; empty for a log without a lake."""
        return self.place.facility

    @property
    def has_lake(self) -> bool:
        """Whether a lake was named or is open; a log alone is answered without looking for one."""
        return self.place.was_named or self.place.opened is not None

    def shared(self, make: Callable[[DataSource, Params], T], params: Params) -> T:
        """The result of `make(self, params)`, made once for all questions that share results. An error is not kept."""
        if make not in self._shared:
            self._shared[make] = make(self, params)
        return cast(T, self._shared[make])

    def frame(
        self,
        table: str,
        columns: Sequence[str] = (),
        where: Mapping[str, Cell | tuple[Cell, ...]] | None = None,
        *,
        optional: bool = False,
        any_time: bool = False,
        missing: str = "",
    ) -> Frame:
        """Rows of the period (`any_time`: of all time). Raises DataUnavailable, which says `missing`, if the table is
        empty and not `optional`."""
        self.note_tables((table,))
        if not optional and not self.snapshot.filled([table]):
            raise DataUnavailable(missing or f"The lake has no rows in `{table}`.")
        period = None if any_time or self.period_ns == ALL_TIME else self.period_ns
        return self.snapshot.frame(table, columns, where or {}, period)

    def fetch(self, needs: Sequence[Need], *, any_time: bool = False, missing: str = "") -> StudyData:
        """Rows that functions of studies take, by need; `missing` is said where a required table is empty."""
        frames = {
            need.name: self.frame(
                need.table,
                need.columns,
                need.where,
                optional=need.optional,
                any_time=any_time or need.any_time,
                missing=missing,
            )
            for need in needs
        }
        return StudyData(frames, period_ns=self.period_ns)

    def note_tables(self, tables: Collection[str]) -> None:
        """Record that rows of these tables are read as the asking user sees them."""
        self.own_rows |= self.snapshot.owner is not None and of_people(tables)

    def note_logs(self, param: str, digests: Sequence[str] = (), *, from_file: bool = False) -> None:
        """Record the logs that the answer is about, and the parameter that named them: provenance gives digests, not
        paths."""
        self.log_params.add(param)
        self.log_digests += digests
        if from_file:
            self.file_digests += digests
