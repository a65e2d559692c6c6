"""Interfaces between packages: readers, studies, questions and their parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    import numpy as np
    from numpy.typing import NDArray

    from ioweather.core.frames import Frame
    from ioweather.core.results import Answer, Block, Cell, Exhibit
    from ioweather.lake.lake import Snapshot
    from ioweather.topics.source import DataSource

PathPolicy: TypeAlias = Literal["keep", "hash", "drop"]


@dataclass(frozen=True)
class ReadContext:
    """What a user or facility.toml says about files: zone, start, interval, host, system, and what may be stored."""

    zone: ZoneInfo | None = None
    start_ns: int | None = None
    interval_ns: int | None = None
    host: str | None = None
    system: str | None = None
    cluster: str | None = None
    paths: PathPolicy = "keep"
    # Server archives are stored as 1-minute rows; their samples of 5 s only on request.
    keep_raw: bool = False
    # Pattern of hosts whose rows a segment of a spool may have; None: all hosts.
    hosts: str | None = None
    # Users whose files may have rows of any user; None: all. From others a reader takes only rows of themselves: all
    # users can write where Darshan writes, so a file there may claim to be of another user.
    believed_owners: frozenset[int] | None = None
    # For samples of Prometheus: a mapping file of the user.
    mapping: Mapping[str, Any] | None = None

    def doubted_owner(self, path: Path) -> int | None:
        """Uid of the file's owner, if the file may have rows of that user only; None: rows of all users."""
        if self.believed_owners is None:
            return None
        owner = path.stat().st_uid
        return None if owner in self.believed_owners else owner


class Source(Protocol):
    """Reads one kind of file. Stateless and picklable; errors are SourceErrors.

    `detect` returns 0 (not mine) to 1 (surely mine), from the first bytes of a file and its path.
    `read` yields (table, Frame) pairs whose columns are those of `ioweather.core.tables`, without `source`, `ingest_id`
    and `day`, which the lake adds. A generator may return a sentence on what it left out of the file, and why.
    """

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def tables(self) -> tuple[str, ...]: ...
    def detect(self, head: bytes, path: Path) -> float: ...
    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]: ...


# The bytes of a file, and the first 32 hexadecimal digits of their SHA-256.
Content: TypeAlias = tuple[bytes, str]


@runtime_checkable
class BatchSource(Source, Protocol):
    """A source of many small files whose rows are made together, which is faster.

    `parse` reads one file, whose bytes are `content` if they were read before; an error is that file's alone. `rows`
    makes the rows of all of them: (table, Frame, position of the file that each row came from).
    """

    def parse(self, path: Path, context: ReadContext, content: Content | None = None) -> Any: ...
    def rows(
        self, parsed: Sequence[Any], context: ReadContext
    ) -> Iterator[tuple[str, Frame, NDArray[np.integer[Any]]]]: ...


# spread(task, inputs): the results of task(*input) for each input, in order, perhaps from other processes.
Spread: TypeAlias = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], Iterator[Any]]
Params: TypeAlias = Mapping[str, Any]
Period: TypeAlias = tuple[int, int]
ALL_TIME: Period = (0, 2**62)  # ns


@dataclass(frozen=True)
class SeriesGroup:
    """One line of the lake's inventory of `series`: one metric of one kind of component on one day.

    `selection` distinguishes raw from 1-minute rows of the same samples, if a day has both; otherwise it is 'all'.
    """

    day: str
    source: str
    system: str
    filesystem: str
    component_kind: str
    metric: str
    selection: Literal["all", "minute", "raw"]
    interval_ns: int
    regular: bool  # every row has this interval and starts on a multiple of it
    rows: int
    components: int
    first_ns: int
    end_ns: int
    covered_ns: int
    total: float
    flagged: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Param:
    """A parameter of a study or a question.

    `choose` finds a default in the lake, given the values of the parameters before this one. The other fields are for
    questions: `required` and `positional` (optional) ones are arguments of the command; `many` takes several values;
    `option` is the command's spelling if it differs ('read/write': a pair of flags); `local` names something on this
    machine and is refused from the network; without `shown` the command has no such option.
    """

    name: str
    help: str
    kind: Literal["text", "int", "float", "duration", "size", "flag", "time"] = "text"
    default: Cell = None
    choose: Callable[[Snapshot, Params], Cell] | None = None
    required: bool = False
    positional: bool = False
    many: bool = False
    choices: tuple[str, ...] = ()
    least: int | None = None
    option: str = ""
    metavar: str = ""
    local: bool = False
    shown: bool = True


@dataclass(frozen=True)
class Study:
    """A function from a lake to exhibits of a paper.

    `needs` are the tables that it reads, in words such as 'job_io jobs? series:read_bytes,write_bytes': with a '?' the
    exhibits can do without; after a ':' follow metrics. So `ioweather show` can say what a lake lacks. If all are
    optional, one must be there. `spreads`: its long work goes through DataSource.spread, so one study uses several
    workers. `too_few`: why rows may give no exhibit.
    """

    name: str
    exhibits: tuple[str, ...]
    needs: str
    run: Callable[[DataSource, Params], Iterator[Exhibit]]
    params: tuple[Param, ...] = ()
    spreads: bool = False
    too_few: str = "the lake has too few suitable rows in this period"

    def each_need(self) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        """Yield table, metrics and whether it is optional of each need."""
        for word in self.needs.split():
            table, _, metrics = word.removesuffix("?").partition(":")
            yield table, tuple(filter(None, metrics.split(","))), word.endswith("?")

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(table for table, _, _ in self.each_need())

    def missing(self, filled: Collection[str], sampled: Collection[str]) -> tuple[str, ...]:
        """Describe the needs that a lake with these tables and metrics of `series` does not meet."""
        lacks: tuple[list[str], list[str]] = ([], [])
        for table, metrics, is_optional in self.each_need():
            absent = [metric for metric in metrics if metric not in sampled]
            lack = f"no {', '.join(absent)} in `series`" if absent else ""
            if not metrics and table not in filled:
                lack = f"no rows in `{table}`"
            lacks[is_optional].append(lack)
        required, optional = lacks
        found = required or (optional if all(optional) else [])
        return tuple(dict.fromkeys(filter(None, found)))


@dataclass(frozen=True)
class Question:
    """Something a user can ask. Command, Python function, API route and page follow from its line in the catalogue.

    `run(source, params)` reads what it needs from a `topics.source.DataSource` and returns the answer, whose `result`
    is of the type named here. `tables` are those that it may read. `seen_by` says whose rows it may show: those of
    all users to all users ('public'), or to each user their own ('owner'). `period`: --from and --to bound what is
    read. `screen` are parameters for the terminal, if it shows less than programs get. `blocks` makes the first screen
    of an answer; --full shows the evidence. `table` is what --csv prints, if not the facts.
    """

    name: str
    result: type
    run: Callable[[DataSource, Params], Answer]
    tables: frozenset[str] = frozenset()
    params: tuple[Param, ...] = ()
    help: str = ""
    epilog: str = ""
    seen_by: Literal["public", "owner"] = "owner"
    period: bool = True
    page: bool = True
    screen: Mapping[str, Cell] = field(default_factory=dict)
    blocks: Callable[[Answer, Params], Iterable[Block]] | None = None
    table: str = ""
