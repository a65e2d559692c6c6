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

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from ioweather.core.counters.growth import Growth, Sample, Target
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


# Number of samples of an operation, their unit, and their sum; None if only calls are counted.
Line = tuple[int, str, "int | None"]
_END_NS = 1 << 63  # what the tables hold
_STATS_LINE = re.compile(r"(\S+)\s+([0-9]+) samples \[(\w+)\]((?:\s+-?[0-9]+)*)\s*")
ENTRY = "\n- job_id:"  # of a list of jobs
MOST_DIGITS = 20  # of a counter of 64 bits
_TIME = re.compile(
    r"(snapshot_time|start_time|elapsed_time):?\s+([0-9]{1,18})(?:\.\s*([0-9]{1,18}))?\s*\(?(?:secs\.(usecs|nsecs))?\)?"
)
# `memused=1` and similar lines too: what follows is not of the parameter before.
_PARAMETER = re.compile(r"([A-Za-z][\w-]*(?:\.[^\s=]+)?)=(.*)")


def parse_stats(text: str, where: str = "stats") -> tuple[dict[str, int], dict[str, Line]]:
    """Parse a `stats` or `md_stats` file: its times as `parse_time` names them, in UTC ns, and its lines by operation.

    A line is `name count samples [unit] min max sum sumsq`; sumsq and more may be absent.
    """
    times: dict[str, int] = {}
    lines: dict[str, Line] = {}
    for line in text.splitlines():
        if match := _STATS_LINE.fullmatch(line):
            samples, *numbers = (_counter(word, line, where) for word in (match[2], *match[4].split()[:3]))
            # The first of two lines of one name: see the traps above.
            lines.setdefault(match[1], (samples, match[3], numbers[2] if len(numbers) == 3 else None))
        elif (found := parse_time(line.rstrip(), where)) is not None:
            times.setdefault(*found)
        elif " samples " in line:  # other lines are what people write between: a date, a prompt
            raise CorruptInput(f"{where}: {line.strip()[:80]!r} is not a Lustre stats line.")
    if "snapshot_time" not in times:
        raise CorruptInput(f"{where} has no snapshot_time.")
    return times, lines


def _counter(word: str, line: str, where: str) -> int:
    """Return a counter. Raises CorruptInput if it is larger than 64 bits can be."""
    if len(word) > MOST_DIGITS:
        raise CorruptInput(f"{where}: {line.strip()[:80]!r} has a number larger than a 64-bit counter.")
    return int(word)


def parse_time(line: str, where: str) -> tuple[str, int] | None:
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
        raise CorruptInput(f"{where}: {match[0][:80]!r} is not a plausible time.")
    return match[1], moment


def parse_number(text: str, where: str) -> int:
    """Parse a file of one number: kbytesfree, filestotal, num_exports."""
    text = text.strip(" \t\r\n\0")  # a copy of a file of sysfs is a page long
    number = whole_number(text)
    if number is None:
        raise CorruptInput(f"{where}: {text[:80]!r} is not a number.")
    return number


def get_param_blocks(lines: Iterable[str | None]) -> Iterator[tuple[str, str]]:
    """(parameter, its text) of `lctl get_param` output: `name=value`, or `name=` and lines that follow.

    Lines before the first parameter (a prompt, a date) are left out. None says that the text was cut off there: the
    parameter it belongs to is left out, for counters that are not shown would look as if they had been cleared. Of a
    list of jobs, all entries but the last are whole: they are kept.
    """
    name: str | None = None
    body: list[str] = []
    for line in lines:
        if line is None:
            if name is not None and name.endswith(".job_stats"):
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
_LONGEST_KEY = 1024
_LONGEST_ENTRY = 64 << 10


def _unquoted(text: str) -> str:
    """A job's key without the quotes that 2.14 puts around it."""
    text = text.strip()
    quoted = len(text) > 1 and text[0] == '"' == text[-1]
    return (text[1:-1] if quoted else text)[:_LONGEST_KEY]


def _parse_entry(target: Target, text: str, where: str) -> Sample:
    """The counters of one job on one target, without operations that never happened.

    They are named `read count`, `read bytes`, `read time_us`, and `read 4096` for operations by the size in bytes that
    none of them exceeds, as far as the version counts each.
    """
    key, *lines = text.split("\n")
    key = _unquoted(key)
    counters: dict[str, int] = {}
    times: dict[str, int] = {}
    for line in lines:
        if _IDLE in line:  # most lines are of operations that the job never did
            continue
        if (match := _JOB_LINE.match(line)) is not None:
            name, samples, unit, total, sizes = match.groups()
            if not int(samples):
                continue
            # `read_bytes` and `read` count the same requests: the one their bytes, the other, since 2.12, their time.
            operation = name.removesuffix("_bytes")
            counters[f"{operation} count"] = int(samples)
            if total and operation != name:
                counters[f"{operation} bytes"] = int(total)
            elif total and unit.startswith("usec"):
                counters[f"{operation} time_us"] = int(total)
            for size, scale, count in _BUCKET.findall(sizes or "") if operation != name else ():
                if int(count):
                    counters[f"{operation} {int(size) * _SCALE[scale]}"] = int(count)
        elif line.startswith(_TIMES):
            times.update(filter(None, [parse_time(line.strip(), where)]))
        elif " samples:" in line and not _NOTHING_DONE.search(line):
            raise CorruptInput(f"{where}: the entry of job {key[:60]!r} has a line that is not valid in job_stats.")
    if "snapshot_time" not in times:
        raise CorruptInput(f"{where}: the entry of job {key[:60]!r} has no snapshot_time.")
    return Sample(target, key, times["snapshot_time"], times.get("start_time"), counters)


def _job_growth(before: Sample, after: Sample) -> Growth | None:
    """What the job did between two samples of its entry; None if nothing.

    An entry started again at zero if a counter fell or disappeared, or if it begins at another moment.
    """
    amounts = {name: count - before.counters.get(name, 0) for name, count in after.counters.items()}
    same_entry = before.since_ns == after.since_ns and before.counters.keys() <= after.counters.keys()
    if same_entry and all(amount >= 0 for amount in amounts.values()):
        active = {name.partition(" ")[0] for name, amount in amounts.items() if amount}
        amounts = {name: amount for name, amount in amounts.items() if name.partition(" ")[0] in active}
        return _growth_of(after, before.time_ns, amounts, restarted=False) if amounts else None
    return _growth_of(after, max(before.time_ns, after.since_ns or 0), after.counters, restarted=True)


def _growth_of(entry: Sample, start_ns: int, amounts: dict[str, int], *, restarted: bool) -> Growth:
    """Amounts from `start_ns` to the entry's last operation. Times of whole seconds may be the same for what happened
    in one second."""
    span = (start_ns, entry.time_ns) if start_ns < entry.time_ns else (entry.time_ns, entry.time_ns + NS)
    return Growth(entry.target, entry.source, *span, amounts, restarted)


_MOST_GONE = 10_000


class TargetJobs:
    """The jobs of one target, as its `job_stats` listed them last. Only entries whose text changed are parsed: a target
    may list ten thousand jobs."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._clear()
        self.unplaced = 0  # jobs that began at an unknown time

    def _clear(self) -> None:
        """Forget all lists."""
        self._entries: dict[str, Sample] = {}
        self._hashes: dict[str, int] = {}  # of the text of each entry
        self._gone: dict[str, None] = {}  # the newest last
        self._listed_ns: int | None = None
        self.lists = 0

    def update(self, text: str, listed_ns: int | None, where: str) -> Iterator[Growth]:
        """Yield what each job did since the last list.

        `listed_ns` is the time of this list, if known. After a list that is earlier than the last one (files joined out
        of order) the comparison starts again.
        """
        hashes: dict[str, int] = {}
        changed: dict[str, Sample] = {}
        for entry_text in f"\n{text}".rstrip("\n\0").split(ENTRY)[1:]:
            if len(entry_text) > _LONGEST_ENTRY:
                raise CorruptInput(f"{where}: an entry of job_stats exceeds the maximum length.")
            key = _unquoted(entry_text.partition("\n")[0])
            hashes[key] = hash(entry_text)
            if self._hashes.get(key) != hashes[key]:
                entry = _parse_entry(self.target, entry_text, where)
                if key not in changed or changed[key].time_ns < entry.time_ns:
                    changed[key] = entry
        if self._is_earlier(changed, listed_ns):
            self._clear()
            yield from self.update(text, listed_ns, where)
            return
        for key, entry in changed.items():
            grown = self._take(key, entry)
            if grown is not None:
                yield grown
        for key in self._entries.keys() - hashes.keys():
            del self._entries[key]
            self._gone[key] = None
            if len(self._gone) > _MOST_GONE:
                del self._gone[next(iter(self._gone))]
        latest = max([listed_ns or 0, self._listed_ns or 0, *(entry.time_ns for entry in changed.values())])
        self._hashes, self._listed_ns = hashes, latest or None
        self.lists += 1

    def _is_earlier(self, changed: Mapping[str, Sample], listed_ns: int | None) -> bool:
        """Return whether a list is from before the last one."""
        if listed_ns is not None and self._listed_ns is not None and listed_ns < self._listed_ns:
            return True
        pairs = [(self._entries[key], entry) for key, entry in changed.items() if key in self._entries]
        return any(new.time_ns < old.time_ns and new.since_ns == old.since_ns for old, new in pairs)

    def _take(self, key: str, entry: Sample) -> Growth | None:
        """Store an entry that is new or changed; return what the job did since, if that can be said."""
        before = self._entries.get(key)
        if before is not None and entry.time_ns == before.time_ns:
            return None  # operations of the same second are reported with the next second
        self._entries[key] = entry
        if before is not None:
            return _job_growth(before, entry)
        if not self.lists:
            return None
        # The list before did not have it: all of its counts are new.
        came_back = key in self._gone
        self._gone.pop(key, None)
        start_ns = self._listed_ns if entry.since_ns is None else entry.since_ns
        if start_ns is None:
            self.unplaced += 1
            return None
        return _growth_of(entry, start_ns, entry.counters, restarted=came_back) if entry.counters else None

    def whole_lives(self) -> list[Growth]:
        """After a single list: what each job has done since its entry began, if that time is known."""
        return [
            _growth_of(entry, entry.since_ns, entry.counters, restarted=False)
            for entry in self._entries.values()
            if entry.since_ns is not None and entry.counters
        ]

    def count_without_begin(self) -> int:
        """Number of jobs whose amounts cannot be placed in time after a single list."""
        return sum(entry.since_ns is None and bool(entry.counters) for entry in self._entries.values())


_JOB_NUMBER = re.compile(r"([0-9]{1,18})")
_PROGRAM_AND_USER = re.compile(r"(.+)\.([0-9]{1,18})", re.DOTALL)
_PBS = re.compile(r"([0-9]{1,18})(?:\[[0-9]*\])?\.([A-Za-z][\w.-]*)")
# python3.11 is a program, and may be followed by no user.
_VERSIONED = re.compile(r"\w*[A-Za-z]-?[0-9]+\.[0-9]{1,2}")


@lru_cache(maxsize=1 << 14)  # the same jobs are listed again and again
def identity_of(key: str) -> dict[str, int | str | None]:
    """The columns `job_id`, `uid`, `exe` and `host` of the job id in a server's statistics; None for what it does not
    say.

    Its form is the site's choice (`jobid_var`, `jobid_name`), and the text does not say which: a form that could be two
    things says nothing. Forms of the Lustre manual, chapter 12.2: the value of a scheduler's variable (SLURM_JOB_ID,
    PBS_JOBID), `procname_uid` ("%e.%u"), and codes joined by colons, mostly "%e:%u:%h" or "%j:%u:%h".
    """
    job_id = uid = exe = host = None
    if match := _JOB_NUMBER.fullmatch(key) or _PBS.fullmatch(key):
        job_id = int(match[1])
    elif ":" in key:  # a job or a program, its user, and perhaps the client
        first, user, *rest = key.split(":")
        client = (rest or [""])[0] or None
        if first and _JOB_NUMBER.fullmatch(user) and len(rest) <= 1:
            if not _JOB_NUMBER.fullmatch(first):
                uid, exe, host = int(user), first, client
            elif client:  # two numbers alone may be anything
                job_id, uid, host = int(first), int(user), client
    elif (match := _PROGRAM_AND_USER.fullmatch(key)) and not match[1].isdigit() and not _VERSIONED.fullmatch(key):
        uid, exe = int(match[2]), match[1]
    return {"job_id": job_id, "uid": uid, "exe": exe, "host": host}


def job_rows(grown: Growth, quality: int, cluster: str | None) -> Iterator[dict[str, object]]:
    """Rows of `job_operations`, one per operation."""
    identity = identity_of(grown.source)
    by_operation: dict[str, dict[str, int]] = {}
    for name, amount in grown.amounts.items():
        operation, _, part = name.partition(" ")
        by_operation.setdefault(operation, {})[part] = amount
    for operation, parts in sorted(by_operation.items()):
        time_us = parts.get("time_us")
        histogram = {int(part): count for part, count in parts.items() if part.isdigit() and count}
        yield {
            "start_ns": grown.start_ns,
            "interval_ns": grown.end_ns - grown.start_ns,
            "system": grown.target.system,
            "component_kind": grown.target.kind,
            "component": grown.target.name,
            "job_key": grown.source,
            **identity,
            "cluster": cluster if identity["job_id"] is not None else None,
            "operation": operation,
            "count": parts["count"],
            "bytes": parts.get("bytes"),
            "time_ns": None if time_us is None else time_us * 1000,
            "histogram": json.dumps(histogram, separators=(",", ":")) if histogram else None,
            "quality": quality,
        }
