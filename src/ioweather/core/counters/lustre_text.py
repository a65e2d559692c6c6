"""The text of Lustre's counters, from 1.8 to 2.16. Standard library only: the live collector uses it too.

Read off real servers of 1.8.3, 2.10, 2.12 and 2.14; 2.16 is after its documentation.

Traps: a line is absent until its operation is first used. `statfs` stands twice in obdfilter's stats: first the
requests of clients, then the calls of the device below; the first is meant. The fraction of a time is a plain count of
microseconds or nanoseconds, in some versions without leading zeros, in some padded with blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ioweather.core.errors import CorruptInput
from ioweather.core.plain_values import whole_number

_NS = 1_000_000_000
_END_NS = 1 << 63  # what the tables hold
_LINE = re.compile(r"(\S+)\s+([0-9]+) samples \[(\w+)\]((?:\s+-?[0-9]+)*)\s*")
ENTRY = "\n- job_id:"  # of a list of jobs
MOST_DIGITS = 20  # of a counter of 64 bits
_TIME = re.compile(
    r"(snapshot_time|start_time|elapsed_time):?\s+([0-9]{1,18})(?:\.\s*([0-9]{1,18}))?\s*\(?(?:secs\.(usecs|nsecs))?\)?"
)
# `memused=1` and similar lines too: what follows is not of the parameter before.
_PARAMETER = re.compile(r"([A-Za-z][\w-]*(?:\.[^\s=]+)?)=(.*)")


@dataclass(frozen=True, slots=True)
class Counter:
    """One line: how often, and of what size or duration. Sums are absent where only calls are counted."""

    samples: int
    unit: str
    total: int | None = None


@dataclass(frozen=True, slots=True)
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
        if match := _LINE.fullmatch(line):
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
    return None if match is None else (match[1], _time_ns(match, where))


def _time_ns(match: re.Match[str], where: str) -> int:
    fraction = int(match[3] or 0)
    if match[4] == "usecs":
        fraction *= 1000
    elif match[4] is None and match[3]:
        fraction = int(match[3].ljust(9, "0")[:9])
    moment = int(match[2]) * _NS + fraction
    if moment >= _END_NS:
        raise CorruptInput(f"{where}: {match[0][:80]!r} is not a time of this age.")
    return moment


def parse_number(text: str, where: str) -> int:
    """A file of one number: kbytesfree, filestotal, num_exports."""
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
