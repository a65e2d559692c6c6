"""`job_stats`: what every job did on a target since its entry began; and what it did between two looks.

Standard library only: the live collector uses it too. Two forms are read: `{ samples: 5, unit: bytes, min: 1, max: 9,
sum: 30 }` up to 2.13, and with `sumsq`, `hist: { 4K: 5 }`, `start_time` and `elapsed_time` since 2.14.

Traps: `snapshot_time` of an entry is the moment of its last operation, not of the look; in the old form it has whole
seconds. Entries idle for `job_cleanup_interval` (ten minutes) are removed, and begin at zero when their job comes back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from ioweather.core.counters.lustre_text import ENTRY, time_of
from ioweather.core.errors import CorruptInput
from ioweather.core.units import NS

_LINE = re.compile(
    r"  (\w{1,40}): +\{ *samples: *([0-9]{1,18}), unit: *(\w{1,10})"
    r"(?:, min: *-?[0-9]+, max: *-?[0-9]+, sum: *([0-9]{1,18}))?(?:, sumsq: *[0-9]+)?(?:, hist: *\{([^}]*)\})? *\}"
)
_NOTHING_DONE = re.compile(r"samples: *0,")
_IDLE = " samples:           0,"  # as servers pad it: most lines are so, and a text is found faster than a pattern
_TIMES = ("  snapshot_time:", "  start_time:")
_BUCKET = re.compile(r"([0-9]{1,18})([KMGT]?): *([0-9]{1,18})(?![0-9])")
_SCALE = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_BYTES_SUFFIX = "_bytes"
LONGEST_KEY = 1024


class Operation(NamedTuple):
    """What an entry counts of one operation; None is what its version does not count. `sizes` is the text of `hist`."""

    samples: int
    bytes: int | None = None
    time_us: int | None = None
    sizes: str | None = None


_NONE = Operation(0)
Operations: TypeAlias = dict[str, Operation]


class Entry(NamedTuple):
    """One job on one target. Operations that never happened are left out."""

    last_ns: int
    begun_ns: int | None
    operations: Operations


class JobAmounts(NamedTuple):
    """What a job did in [start_ns, end_ns). `restarted`: the entry started again, and this is the least it can be."""

    job_key: str
    start_ns: int
    end_ns: int
    operations: Operations
    restarted: bool


def entry_texts(text: str) -> Iterator[str]:
    """Each entry of a list, from behind its mark on."""
    yield from ("\n" + text).split(ENTRY)[1:]


def unquoted(text: str) -> str:
    """A job's key as it stands there, without the quotes that 2.14 puts around it."""
    text = text.strip()
    quoted = len(text) > 1 and text[0] == '"' == text[-1]
    return (text[1:-1] if quoted else text)[:LONGEST_KEY]


def parse_entry(text: str, where: str) -> tuple[str, Entry]:
    """(job, its counters). Most lines are of operations that the job never did: they are skipped first."""
    key, *lines = text.split("\n")
    operations: Operations = {}
    times: dict[str, int] = {}
    for line in lines:
        if _IDLE in line:
            continue
        if (match := _LINE.match(line)) is not None:
            name, samples, unit, total, sizes = match.groups()
            if count := int(samples):
                _count(operations, name, count, unit, int(total) if total else None, sizes)
        elif line.startswith(_TIMES):
            times.update(filter(None, [time_of(line.strip(), where)]))
        elif " samples:" in line and not _NOTHING_DONE.search(line):
            raise CorruptInput(
                f"{where}: the entry of job {unquoted(key)[:60]!r} has a line that is none of job_stats."
            )
    if "snapshot_time" not in times:
        raise CorruptInput(f"{where}: the entry of job {unquoted(key)[:60]!r} has no snapshot_time.")
    return unquoted(key), Entry(times["snapshot_time"], times.get("start_time"), operations)


def _count(operations: Operations, name: str, samples: int, unit: str, total: int | None, sizes: str | None) -> None:
    """`read_bytes` and `read` count the same requests: the one their bytes, the other, since 2.12, their time."""
    if name.endswith(_BYTES_SUFFIX):
        name = name[: -len(_BYTES_SUFFIX)]
        operations[name] = Operation(
            samples, total, operations.get(name, _NONE).time_us, sizes and (sizes.strip() or None)
        )
        return
    time_us = total if unit.startswith("usec") else None
    known = operations.get(name)
    if known is None:
        operations[name] = Operation(samples, time_us=time_us)
    else:
        operations[name] = Operation(known.samples, known.bytes, time_us, known.sizes)


def parse_job_stats(text: str, where: str) -> dict[str, Entry]:
    """All entries of one target. Of a job that stands there twice the later counts."""
    found: dict[str, Entry] = {}
    for key, entry in (parse_entry(part, where) for part in entry_texts(text)):
        if key not in found or found[key].last_ns < entry.last_ns:
            found[key] = entry
    return found


def size_bins(text: str | None) -> dict[int, int]:
    """`4K: 5, 8K: 77` -> operations by the size in bytes that none of them exceeds."""
    if not text:
        return {}
    return {int(size) * _SCALE[scale]: int(count) for size, scale, count in _BUCKET.findall(text)}


def _fell(before: Operation, after: Operation) -> bool:
    """An amount that one of the two does not count is not compared."""
    samples, moved, time_us, _ = after
    samples_then, moved_then, time_us_then, _ = before
    return (
        samples < samples_then
        or (moved is not None and moved_then is not None and moved < moved_then)
        or (time_us is not None and time_us_then is not None and time_us < time_us_then)
    )


def _grown(before: Operation, after: Operation) -> Operation:
    samples, moved, time_us, sizes = after
    samples_then, moved_then, time_us_then, sizes_then = before
    return Operation(
        samples - samples_then,
        None if moved is None else moved - (moved_then or 0),
        None if time_us is None else time_us - (time_us_then or 0),
        None if sizes is None or sizes == sizes_then else _sizes_grown(sizes_then, sizes),
    )


def _sizes_grown(before: str | None, after: str) -> str | None:
    old, new = size_bins(before), size_bins(after)
    grown = [f"{size}: {count - old.get(size, 0)}" for size, count in new.items() if count > old.get(size, 0)]
    return ", ".join(grown) or None


def amounts_between(key: str, before: Entry, after: Entry) -> JobAmounts | None:
    """An entry whose counters fell, or that counts from another moment on, started again. None where it did nothing."""
    grown: Operations = {}
    known = before.operations
    restarted = before.begun_ns != after.begun_ns or not known.keys() <= after.operations.keys()
    for name, now in after.operations.items():
        then = known.get(name)
        if then is None:
            grown[name] = now
        elif now != then:
            if _fell(then, now):
                restarted = True
                break
            grown[name] = _grown(then, now)
    if restarted:
        return JobAmounts(key, *_span(_later(before.last_ns, after.begun_ns), after.last_ns), after.operations, True)
    return JobAmounts(key, *_span(before.last_ns, after.last_ns), grown, False) if grown else None


def _later(moment_ns: int, begun_ns: int | None) -> int:
    return moment_ns if begun_ns is None else max(moment_ns, begun_ns)


def _span(start_ns: int, end_ns: int) -> tuple[int, int]:
    """Times of whole seconds may be the same for what happened in one second."""
    return (start_ns, end_ns) if start_ns < end_ns else (end_ns, end_ns + NS)


_MOST_GONE = 10_000


class TargetJobs:
    """Remembers the entries of one target and tells what each job did since."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._gone: dict[str, None] = {}  # the newest last
        self._looked_ns: int | None = None
        self._latest_ns = 0
        self.looks = 0
        self.unplaced = 0

    def update(self, entries: Mapping[str, Entry], looked_ns: int | None) -> Iterator[JobAmounts]:
        """`looked_ns`: when the list was shown, where that is known. A list from before the last one (files joined out
        of order) is compared from there on."""
        if self._is_earlier(entries, looked_ns):
            self._entries, self._gone, self._looked_ns, self._latest_ns, self.looks = {}, {}, None, 0, 0
        for key, entry in entries.items():
            amounts = self.see(key, entry)
            if amounts is not None:
                yield amounts
        self.end_look(entries.__contains__, looked_ns)

    def _is_earlier(self, entries: Mapping[str, Entry], looked_ns: int | None) -> bool:
        if looked_ns is not None and self._looked_ns is not None and looked_ns < self._looked_ns:
            return True
        pairs = ((self._entries[key], entry) for key, entry in entries.items() if key in self._entries)
        return any(new.last_ns < old.last_ns and new.begun_ns == old.begun_ns for old, new in pairs)

    def see(self, key: str, entry: Entry) -> JobAmounts | None:
        """One entry of a list; those that did not change need not be shown."""
        before = self._entries.get(key)
        if before is not None and entry.last_ns == before.last_ns:
            return None  # what came in the same second is told when the time has moved on
        self._entries[key] = entry
        self._latest_ns = max(self._latest_ns, entry.last_ns)
        if before is not None:
            return amounts_between(key, before, entry)
        return self._of_new_entry(key, entry) if self.looks else None

    def end_look(self, is_there: Callable[[str], bool], looked_ns: int | None) -> None:
        """The list is at its end: `is_there` tells of each job whether it was in it."""
        for key in [key for key in self._entries if not is_there(key)]:
            del self._entries[key]
            self._gone[key] = None
            if len(self._gone) > _MOST_GONE:
                del self._gone[next(iter(self._gone))]
        latest = max(self._latest_ns, looked_ns or 0, self._looked_ns or 0)
        self._looked_ns = latest or None
        self.looks += 1

    def _of_new_entry(self, key: str, entry: Entry) -> JobAmounts | None:
        """It was not there at the look before: all that it counts came since."""
        came_back = key in self._gone
        self._gone.pop(key, None)
        start = self._looked_ns if entry.begun_ns is None else entry.begun_ns
        if start is None:
            self.unplaced += 1
            return None
        return JobAmounts(key, *_span(start, entry.last_ns), entry.operations, came_back) if entry.operations else None

    def whole_lives(self) -> Iterator[JobAmounts]:
        """After a single look: what each entry has counted since it began, where that is known."""
        for key, entry in self._entries.items():
            if entry.begun_ns is not None and entry.operations:
                yield JobAmounts(key, *_span(entry.begun_ns, entry.last_ns), entry.operations, False)

    def without_begin(self) -> Iterator[str]:
        """Jobs of which a single look tells nothing."""
        return (key for key, entry in self._entries.items() if entry.begun_ns is None and entry.operations)
