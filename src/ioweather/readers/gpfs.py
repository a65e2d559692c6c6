"""Recordings of `mmpmon -p` to rows of `series`: two answers give what a node did between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from itertools import islice
from pathlib import Path

from ioweather.core.contracts import ReadContext
from ioweather.core.counters.client_counters import ALL, is_mmpmon, samples
from ioweather.core.counters.growth import Differ
from ioweather.core.errors import EmptyInput
from ioweather.core.frames import Frame
from ioweather.readers.counter_rows import SeriesRows
from ioweather.readers.text_files import plain_head, whole_lines

_HINT = "Record again and again: `echo fs_io_s | mmpmon -p -i /dev/stdin -r 0 -d 60000 >> FILE`."


class MmpmonSource:
    name = "mmpmon"
    title = "GPFS counters of nodes (mmpmon -p: fs_io_s, io_s, rhist s)"
    tables = ("series",)

    def detect(self, head: bytes, path: Path) -> float:
        return 0.95 if is_mmpmon(plain_head(head)) else 0.0

    def read(self, path: Path, context: ReadContext) -> Generator[tuple[str, Frame], None, str | None]:
        rows, differ, refused = SeriesRows(), Differ(), Counter[str]()
        answers = 0
        found = samples(line for _, line in whole_lines(path))
        while batch := list(islice(found, 1000)):
            for item in batch:
                answers += 1
                if isinstance(item, str):
                    refused[item] += 1
                    continue
                for origin, grown in differ.update([item]):
                    # A node's sums hold what the lines of its file systems tell: the lake reads one of them.
                    target = origin.target
                    if target.system == ALL and context.system is not None:
                        target = target._replace(system=context.system)
                    rows.amounts(target, grown)
            yield from rows.full()
        yield from rows.rest()
        left = "; ".join(f"{count} answer(s): {what}" for what, count in refused.items())
        if not rows.made:
            raise EmptyInput(
                f"{path} holds {answers} answer(s) of mmpmon and nothing to compare{f' ({left})' if left else ''}: "
                "counters run since mounting, and two answers give amounts.",
                hint=_HINT,
            )
        return f"{path}: left out: {left}." if left else None


SOURCE = MmpmonSource()
