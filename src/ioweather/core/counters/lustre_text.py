"""The text of Lustre's counters, from 1.8 to 2.16, and what jobs did between two samples of `job_stats`.

Standard library only: the live collector uses it too. Read off real servers of 1.8.3, 2.10, 2.12 and 2.14; 2.16 is
after its documentation.

Traps of `stats`: a line is absent until its operation is first used. `statfs` stands twice in obdfilter's stats: first
the requests of clients, then the calls of the device below; the first is meant. The fraction of a time is a plain count
of microseconds or nanoseconds, in some versions without leading zeros, in some padded with blanks.

`job_stats` counts what every job did on a target since its entry began. Two forms are read: `{ samples: 5, unit: bytes,
min: 1, max: 9, sum: 30 }` up to 2.13, and with `sumsq`, `hist: { 4K: 5 }`, `start_time` and `elapsed_time` since 2.14.
Traps: `snapshot_time` of an entry is the moment of its last operation, not of the sample; in the old form it has whole
seconds. Entries idle for `job_cleanup_interval` (ten minutes) are removed, and begin at zero when their job comes back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ioweather.core.counters.growth import Target
from ioweather.core.errors import CorruptInput
from ioweather.core.units import NS, names_of, whole_number

OPERATIONS = names_of("""
    open close mknod link unlink mkdir rmdir rename getattr setattr getxattr setxattr statfs sync punch create destroy
""")

# On a metadata server every operation counts; what has no metric of its own is summed into other_ops.
OPERATION_METRICS: dict[str, str] = {
    **{name: f"{name}_ops" for name in OPERATIONS},
    "reconnect": "reconnects",
    # Lines named after bytes count requests; their sum is the bytes. Data-on-MDT makes them appear on MDTs too.
    "read_bytes": "read_ops",
    "write_bytes": "write_ops",
}
# Already counted: each is a part of `rename`, or the timing of the requests that read_bytes and write_bytes count.
COUNTED_ELSEWHERE = frozenset(
    {"samedir_rename", "crossdir_rename", "parallel_rename_file", "parallel_rename_dir", "read", "write"}
)


def metadata_metric(operation: str) -> str | None:
    """The metric of a metadata target that an operation counts towards; None where it is counted already."""
    if operation in COUNTED_ELSEWHERE:
        return None
    return OPERATION_METRICS.get(operation, "other_ops")


def target_metric(operation: str) -> str | None:
    """The same for a storage target, where the rest (pings, connects, the two halves of a bulk request) is no work."""
    return OPERATION_METRICS.get(operation)


_END_NS = 1 << 63  # what the tables hold
_STATS_LINE = re.compile(r"(\S+)\s+([0-9]+) samples \[(\w+)\]((?:\s+-?[0-9]+)*)\s*")
ENTRY = "\n- job_id:"  # of a list of jobs
MOST_DIGITS = 20  # of a counter of 64 bits
_TIME = re.compile(
    r"(snapshot_time|start_time|elapsed_time):?\s+([0-9]{1,18})(?:\.\s*([0-9]{1,18}))?\s*\(?(?:secs\.(usecs|nsecs))?\)?"
)
# `memused=1` and similar lines too: what follows is not of the parameter before.
_PARAMETER = re.compile(r"([A-Za-z][\w-]*(?:\.[^\s=]+)?)=(.*)")


@dataclass(frozen=True)
class Counter:
    """One line: number of samples, unit, and their sum; None if only calls are counted."""

    samples: int
    unit: str
    total: int | None = None


@dataclass(frozen=True)
class Stats:
    """A moment of a `stats` or `md_stats` file. `start_ns`: since when it counts, where the version says it."""

    snapshot_ns: int
    start_ns: int | None
    counters: dict[str, Counter]


def parse_stats(text: str, where: str = "stats") -> Stats:
    """`name count samples [unit] min max sum sumsq`; sumsq and more may be absent."""
    times: dict[str, int] = {}
    counters: dict[str, Counter] = {}
    for line in text.splitlines():
        if match := _STATS_LINE.fullmatch(line):
            samples, *numbers = (_counter(word, line, where) for word in (match[2], *match[4].split()[:3]))
            # The first of two lines of one name: see the traps above.
            counters.setdefault(match[1], Counter(samples, match[3], numbers[2] if len(numbers) == 3 else None))
        elif (found := time_of(line.rstrip(), where)) is not None:
            times.setdefault(*found)
        elif " samples " in line:  # other lines are what people write between: a date, a prompt
            raise CorruptInput(f"{where}: {line.strip()[:80]!r} is not a line of Lustre stats.")
    if "snapshot_time" not in times:
        raise CorruptInput(f"{where} has no snapshot_time.")
    return Stats(times["snapshot_time"], times.get("start_time"), counters)


def _counter(word: str, line: str, where: str) -> int:
    if len(word) > MOST_DIGITS:
        raise CorruptInput(f"{where}: {line.strip()[:80]!r} has a number that no counter reaches.")
    return int(word)


def time_of(line: str, where: str) -> tuple[str, int] | None:
    """('snapshot_time', its UTC ns), or one of the two others; None of any other line."""
    match = _TIME.fullmatch(line) if line[:1] in "se" else None
    if match is None:
        return None
    fraction = match[3] or "0"
    # The unit is in brackets, or the digits are those after a point.
    fraction_ns = (
        int(fraction) * 1000 if match[4] == "usecs" else int(fraction if match[4] else fraction.ljust(9, "0")[:9])
    )
    moment = int(match[2]) * NS + fraction_ns
    if moment >= _END_NS:
        raise CorruptInput(f"{where}: {match[0][:80]!r} is not a time of this age.")
    return match[1], moment


def parse_number(text: str, where: str) -> int:
    """Parse a file of one number: kbytesfree, filestotal, num_exports."""
    text = text.strip(" \t\r\n\0")  # a copy of a file of sysfs is a page long
    number = whole_number(text)
    if number is None:
        raise CorruptInput(f"{where}: {text[:80]!r} is not a number.")
    return number


def get_param_blocks(lines: Iterable[str | None], *, more_follows: bool = False) -> Iterator[tuple[str, str]]:
    """(parameter, its text) of `lctl get_param` output: `name=value`, or `name=` and lines that follow.

    Lines before the first parameter (a prompt, a date) are left out. None says that the text was cut off there: the
    parameter it belongs to is left out, for counters that are not shown would look as if they had been cleared. Of a
    list of jobs, all entries but the last are whole: they are kept, unless another text follows, to which those that
    are not shown would have begun again.
    """
    name: str | None = None
    body: list[str] = []
    for line in lines:
        if line is None:
            if name is not None and name.endswith(".job_stats") and not more_follows:
                yield name, ("\n" + "\n".join(body)).rpartition(ENTRY)[0]
            return
        match = _PARAMETER.fullmatch(line) if line[:1].isalpha() else None
        if match is None:
            body.append(line)
            continue
        if name is not None:
            yield name, "\n".join(body)
        name, body = match[1], [match[2]] if match[2] else []
    if name is not None and body:
        yield name, "\n".join(body)


_JOB_LINE = re.compile(
    r"  (\w{1,40}): +\{ *samples: *([0-9]{1,18}), unit: *(\w{1,10})"
    r"(?:, min: *-?[0-9]+, max: *-?[0-9]+, sum: *([0-9]{1,18}))?(?:, sumsq: *[0-9]+)?(?:, hist: *\{([^}]*)\})? *\}"
)
_NOTHING_DONE = re.compile(r"samples: *0,")
_IDLE = " samples:           0,"  # as servers pad it: most lines are so, and a text is found faster than a pattern
_TIMES = ("  snapshot_time:", "  start_time:")
_BUCKET = re.compile(r"([0-9]{1,18})([KMGT]?): *([0-9]{1,18})(?![0-9])")
_SCALE = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
LONGEST_KEY = 1024


class Operation(NamedTuple):
    """What an entry counts of one operation; None is what its version does not count. `sizes` is the text of `hist`."""

    samples: int
    bytes: int | None = None
    time_us: int | None = None
    sizes: str | None = None


_NONE = Operation(0)
Operations = dict[str, Operation]


class Entry(NamedTuple):
    """Counters of one job on one target, without operations that never happened."""

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


def unquoted(text: str) -> str:
    """A job's key without the quotes that 2.14 puts around it."""
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
        if (match := _JOB_LINE.match(line)) is not None:
            name, samples, unit, total, sizes = match.groups()
            amount = int(total) if total else None
            if not int(samples):
                continue
            # `read_bytes` and `read` count the same requests: the one their bytes, the other, since 2.12, their time.
            if name.endswith("_bytes"):
                name = name[: -len("_bytes")]
                time_us = operations.get(name, _NONE).time_us
                operations[name] = Operation(int(samples), amount, time_us, (sizes or "").strip() or None)
            else:
                _, moved, _, known_sizes = operations.get(name, _NONE)
                time_us = amount if unit.startswith("usec") else None
                operations[name] = Operation(int(samples), moved, time_us, known_sizes)
        elif line.startswith(_TIMES):
            times.update(filter(None, [time_of(line.strip(), where)]))
        elif " samples:" in line and not _NOTHING_DONE.search(line):
            raise CorruptInput(
                f"{where}: the entry of job {unquoted(key)[:60]!r} has a line that is none of job_stats."
            )
    if "snapshot_time" not in times:
        raise CorruptInput(f"{where}: the entry of job {unquoted(key)[:60]!r} has no snapshot_time.")
    return unquoted(key), Entry(times["snapshot_time"], times.get("start_time"), operations)


def parse_job_stats(text: str, where: str) -> dict[str, Entry]:
    """All entries of one target by job; of repeated entries of a job the later counts."""
    found: dict[str, Entry] = {}
    for key, entry in (parse_entry(part, where) for part in ("\n" + text).split(ENTRY)[1:]):
        if key not in found or found[key].last_ns < entry.last_ns:
            found[key] = entry
    return found


def size_bins(text: str | None) -> dict[int, int]:
    """`4K: 5, 8K: 77` -> operations by the size in bytes that none of them exceeds."""
    if not text:
        return {}
    return {int(size) * _SCALE[scale]: int(count) for size, scale, count in _BUCKET.findall(text)}


def _difference(before: Operation, after: Operation) -> Operation | None:
    """What was done between two samples of an operation; None where an amount fell. Amounts that one of the two lacks
    are not compared."""
    pairs = tuple(zip(before[:3], after[:3]))
    if any(then is not None and now is not None and now < then for then, now in pairs):
        return None
    samples, moved, time_us = (None if now is None else now - (then or 0) for then, now in pairs)
    old, new = size_bins(before.sizes), size_bins(after.sizes)
    sizes = [f"{size}: {count - old.get(size, 0)}" for size, count in new.items() if count > old.get(size, 0)]
    return Operation(samples or 0, moved, time_us, ", ".join(sizes) or None)


def amounts_between(key: str, before: Entry, after: Entry) -> JobAmounts | None:
    """What the job did between two samples of its entry; None if nothing.

    An entry started again if a counter fell, an operation disappeared or it begins at another moment: it counts from
    zero then.
    """
    grown: dict[str, Operation | None] = {}
    for name, now in after.operations.items():
        then = before.operations.get(name, _NONE)
        if now != then:
            grown[name] = _difference(then, now)
    went_on = {name: operation for name, operation in grown.items() if operation is not None}
    same_entry = before.begun_ns == after.begun_ns and before.operations.keys() <= after.operations.keys()
    if same_entry and len(went_on) == len(grown):
        return JobAmounts(key, *_span(before.last_ns, after.last_ns), went_on, restarted=False) if grown else None
    start_ns = max(before.last_ns, after.begun_ns or 0)
    return JobAmounts(key, *_span(start_ns, after.last_ns), after.operations, restarted=True)


def _span(start_ns: int, end_ns: int) -> tuple[int, int]:
    """Times of whole seconds may be the same for what happened in one second."""
    return (start_ns, end_ns) if start_ns < end_ns else (end_ns, end_ns + NS)


_MOST_GONE = 10_000


class TargetJobs:
    """Keeps the entries of one target and gives what each job did since."""

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
        pairs = ((self._entries[key], entry) for key, entry in entries.items() if key in self._entries)
        before_last = looked_ns is not None and self._looked_ns is not None and looked_ns < self._looked_ns
        if before_last or any(new.last_ns < old.last_ns and new.begun_ns == old.begun_ns for old, new in pairs):
            self._entries, self._gone, self._looked_ns, self._latest_ns, self.looks = {}, {}, None, 0, 0
        for key, entry in entries.items():
            amounts = self.see(key, entry)
            if amounts is not None:
                yield amounts
        self.end_look(entries.__contains__, looked_ns)

    def see(self, key: str, entry: Entry) -> JobAmounts | None:
        """Take one entry of a list; unchanged ones may be left out."""
        before = self._entries.get(key)
        if before is not None and entry.last_ns == before.last_ns:
            return None  # operations of the same second are reported with the next second
        self._entries[key] = entry
        self._latest_ns = max(self._latest_ns, entry.last_ns)
        if before is not None:
            return amounts_between(key, before, entry)
        if not self.looks:
            return None
        # The list before did not have it: all of its counts are new.
        came_back = key in self._gone
        self._gone.pop(key, None)
        start = self._looked_ns if entry.begun_ns is None else entry.begun_ns
        if start is None:
            self.unplaced += 1
            return None
        return JobAmounts(key, *_span(start, entry.last_ns), entry.operations, came_back) if entry.operations else None

    def end_look(self, is_there: Callable[[str], bool], looked_ns: int | None) -> None:
        """End the list: `is_there` says whether a job was in it."""
        for key in [key for key in self._entries if not is_there(key)]:
            del self._entries[key]
            self._gone[key] = None
            if len(self._gone) > _MOST_GONE:
                del self._gone[next(iter(self._gone))]
        latest = max(self._latest_ns, looked_ns or 0, self._looked_ns or 0)
        self._looked_ns = latest or None
        self.looks += 1

    def whole_lives(self) -> Iterator[JobAmounts]:
        """After a single list: what each entry has counted since its start, if that is known."""
        for key, entry in self._entries.items():
            if entry.begun_ns is not None and entry.operations:
                yield JobAmounts(key, *_span(entry.begun_ns, entry.last_ns), entry.operations, False)

    def without_begin(self) -> Iterator[str]:
        """Jobs whose amounts cannot be placed in time after a single list."""
        return (key for key, entry in self._entries.items() if entry.begun_ns is None and entry.operations)


_JOB_NUMBER = re.compile(r"[0-9]{1,18}")
_PBS = re.compile(r"([0-9]{1,18})(?:\[[0-9]*\])?\.([A-Za-z][\w.-]*)")
# python3.11 is a program, and may be followed by no user.
_VERSIONED = re.compile(r"\w*[A-Za-z]-?[0-9]+\.[0-9]{1,2}")


@dataclass(frozen=True)
class JobIdentity:
    """What the job id of a server's statistics tells. Its form is the site's choice (`jobid_var`, `jobid_name`), and
    the text does not say which: a form that could be two things tells nothing. Forms of the Lustre manual, chapter
    12.2: the value of a scheduler's variable (SLURM_JOB_ID, PBS_JOBID), `procname_uid` ("%e.%u"), and codes joined by
    colons, mostly "%e:%u:%h" or "%j:%u:%h"."""

    job_id: int | None = None
    uid: int | None = None
    exe: str | None = None
    host: str | None = None


@lru_cache(maxsize=1 << 14)  # the same jobs are looked at again and again
def identity_of(key: str) -> JobIdentity:
    """What the job id of a server says: number, user, program and host, where it has them."""
    if _JOB_NUMBER.fullmatch(key):
        return JobIdentity(job_id=int(key))
    if match := _PBS.fullmatch(key):
        return JobIdentity(job_id=int(match[1]))
    if ":" in key:  # a job or a program, its user, and perhaps the client
        first, uid, *rest = key.split(":")
        if first and _JOB_NUMBER.fullmatch(uid) and len(rest) <= 1:
            host = (rest or [""])[0] or None
            if not _JOB_NUMBER.fullmatch(first):
                return JobIdentity(uid=int(uid), exe=first, host=host)
            if host:  # two numbers alone may be anything
                return JobIdentity(job_id=int(first), uid=int(uid), host=host)
        return JobIdentity()
    exe, _, uid = key.rpartition(".")
    if not exe or exe.isdigit() or not _JOB_NUMBER.fullmatch(uid) or _VERSIONED.fullmatch(key):
        return JobIdentity()
    return JobIdentity(uid=int(uid), exe=exe)


def job_rows(target: Target, amounts: JobAmounts, quality: int, cluster: str | None) -> Iterator[dict[str, object]]:
    """Rows of `job_operations`, one per operation."""
    job_key, start_ns, end_ns, operations, _ = amounts
    who = identity_of(job_key)
    of_all = {
        "start_ns": start_ns,
        "interval_ns": end_ns - start_ns,
        "system": target.system,
        "component_kind": target.kind,
        "component": target.name,
        "job_key": job_key,
        "job_id": who.job_id,
        "cluster": cluster if who.job_id is not None else None,
        "uid": who.uid,
        "exe": who.exe,
        "host": who.host,
    }
    for name, (samples, moved, time_us, sizes) in sorted(operations.items()):
        yield {
            **of_all,
            "operation": name,
            "count": samples,
            "bytes": moved,
            "time_ns": None if time_us is None else time_us * 1000,
            "histogram": _histogram(sizes) if sizes else None,
            "quality": quality,
        }


@lru_cache(maxsize=1 << 12)  # a few requests of one size, mostly
def _histogram(sizes: str) -> str | None:
    """JSON, which numbers alone need no encoder for."""
    bins = size_bins(sizes)
    return "{" + ",".join(f'"{size}":{count}' for size, count in bins.items()) + "}" if bins else None
