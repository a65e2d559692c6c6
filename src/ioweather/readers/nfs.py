"""Recordings of /proc/self/mountstats to rows of `series`: two looks give what a mount did between them.

The text has no time: a line before each look says it (`date +%s`, or ISO with an offset), or --start says that of the
first, and the ages of the mounts say how far apart the others are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ioweather.core.clock import parse_time_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.counters.client_counters import Mount, growth_of, parse_mountstats
from ioweather.core.counters.growth import Target
from ioweather.core.errors import EmptyInput, SourceError, UndatedInput
from ioweather.core.frames import Frame
from ioweather.core.units import NS
from ioweather.readers.counter_rows import SeriesRows
from ioweather.readers.text_files import line_blocks, plain_head

_MARK = re.compile(r"^device \S+ mounted on \S+ with fstype \S+", re.MULTILINE)
_TIME = re.compile(
    r"@?[0-9]{9,10}(?:\.[0-9]{1,9})?|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]{5,18} ?(?:Z|[+-][0-9:]{4,6})?"
)
_HINT = "Record again and again: `while sleep 60; do date +%s; cat /proc/self/mountstats; done >> FILE`."


@dataclass
class _Look:
    time_ns: int | None
    lines: list[str] = field(default_factory=list)


class MountstatsSource:
    name = "mountstats"
    title = "NFS client counters (recordings of /proc/self/mountstats)"
    tables = ("series",)

    def detect(self, head: bytes, path: Path) -> float:
        return 0.9 if _MARK.search(plain_head(head)) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        rows, last, looks = SeriesRows(), _Last(context), 0
        for look in _looks(path, context):
            # Where one mount covers another at the same path, the later is the one in use.
            mounts = [*{mount.path: mount for mount in parse_mountstats(look.lines, str(path))}.values()]
            looks += bool(mounts)
            moment = last.moment_of(look, mounts)
            if moment is None and looks > 1:
                raise UndatedInput(f"{path} says no time of its looks.", hint=f"Give --start, of the first. {_HINT}")
            for mount in mounts:
                before = last.mounts.get(mount.path)
                if moment is not None and before is not None and before[0] < moment:
                    if context.host is None:
                        raise SourceError(f"{path} does not say which client it is of.", hint="Give --host.")
                    target = Target(f"mount:{mount.path}", "host", context.host)
                    rows.amounts(target, growth_of(before[1], mount, before[0], moment))
                if moment is not None:
                    last.mounts[mount.path] = (moment, mount)
            yield from rows.full()
        yield from rows.rest()
        if not rows.made:
            held = f"{looks} look(s) at NFS mounts and nothing to compare" if looks else "no NFS mount with statistics"
            raise EmptyInput(
                f"{path} holds {held}: counters run since mounting, and two looks give amounts.", hint=_HINT
            )


class _Last:
    """The mounts as they were at the look before, and how old they were at the first."""

    def __init__(self, context: ReadContext) -> None:
        self.mounts: dict[str, tuple[int, Mount]] = {}
        self._start_ns = context.start_ns
        self._first_ages: dict[str, int] = {}

    def moment_of(self, look: _Look, mounts: list[Mount]) -> int | None:
        ages = {mount.path: mount.age_seconds for mount in mounts if mount.age_seconds is not None}
        self._first_ages = self._first_ages or ages
        if look.time_ns is not None:
            return look.time_ns
        # One that was mounted again meanwhile is younger than it would be: the greatest difference tells.
        apart = max(
            (age - self._first_ages[name] for name, age in ages.items() if name in self._first_ages), default=None
        )
        return None if self._start_ns is None or apart is None else self._start_ns + apart * NS


def _looks(path: Path, context: ReadContext) -> Iterator[_Look]:
    """A line with a time begins a look; where there are none, so does an NFS mount that was in this look already. A
    look that is cut off is left out."""
    look, seen = _Look(None), set[str]()
    for block in line_blocks(path):
        if block.torn:
            return
        for line in block.lines:
            time_ns = _time_ns(line, context)
            if time_ns is not None or (look.time_ns is None and " with fstype nfs" in line and line in seen):
                if look.lines:
                    yield look
                look, seen = _Look(time_ns), set()
            if line.startswith("device "):
                seen.add(line)
            if time_ns is None:
                look.lines.append(line)
    if look.lines:
        yield look


def _time_ns(line: str, context: ReadContext) -> int | None:
    """Of a line that is a time and nothing else."""
    text = line.strip()
    if not _TIME.fullmatch(text):
        return None
    try:
        return parse_time_ns(f"@{text}" if text.replace(".", "").isdigit() else text, context.zone)
    except ValueError:
        return None


SOURCE = MountstatsSource()
