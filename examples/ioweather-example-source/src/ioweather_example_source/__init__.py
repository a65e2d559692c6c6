"""Reads what a site's own script writes every few seconds: bytes of a file system on a node, since it was mounted.

fsmon SECONDS FILESYSTEM NODE READ_BYTES WRITTEN_BYTES
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput
from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES, Quality

_LINE = re.compile(
    rb"fsmon (?P<s>\d{1,10}) (?P<fs>[\w.-]{1,255}) (?P<node>[\w.-]{1,255}) (?P<read>\d{1,18}) (?P<write>\d{1,18})\n"
)
_LONGEST_LINE = 4096


class FsmonSource:
    name = "fsmon"
    title = "Lines of fsmon: counters of a file system on a node"
    tables = ("series",)

    def detect(self, head: bytes, path: Path) -> float:
        return 0.9 if head.startswith(b"fsmon ") else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        """Amounts are differences of two counts of the same node and file system; a count that fell was restarted."""
        last: dict[tuple[str, str, str], tuple[int, int]] = {}
        rows: list[tuple[str, str, str, int, int, float, int]] = []
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), start=1):
                found = _LINE.fullmatch(line)
                if found is None:
                    raise CorruptInput(f"{path}:{number}: this is no line of fsmon.", hint="It may be cut.")
                node, system = found["node"].decode("ascii"), found["fs"].decode("ascii")
                at_ns = int(found["s"]) * 10**9
                for metric, count in (("read_bytes", int(found["read"])), ("write_bytes", int(found["write"]))):
                    then, before = last.get((node, system, metric), (at_ns, 0))
                    if at_ns > then:
                        is_reset = count < before
                        amount, quality = (count, Quality.RESET) if is_reset else (count - before, Quality.OK)
                        rows.append((system, node, metric, then, at_ns - then, float(amount), int(quality)))
                    if at_ns >= then:
                        last[node, system, metric] = (at_ns, count)
        if rows:
            names = ("system", "component", "metric", "start_ns", "interval_ns", "value", "quality")
            columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
            yield "series", TABLES["series"].frame(columns, component_kind="host", rows=len(rows))


SOURCE = FsmonSource()
