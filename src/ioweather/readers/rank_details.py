"""Figures of every rank of IOR and mdtest, as IO500 keeps them beside its results: the source `rank_details`.

IOR (-O saveRankPerformanceDetailsCSV): `access,rank,seconds,seconds of transfers,bytes/s,bytes/s of transfers`, one
block of ranks for each repetition. mdtest (--saveRankPerformanceDetails): `rank,items,rate-TEST,time-TEST,...`, a line
`all` and one for each rank. There are no times of day. What is taken is the whole: all bytes in the time of the slowest
rank, and how far ranks differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, TruncatedInput
from ioweather.core.frames import Frame
from ioweather.readers.benchmark_phases import Phase, TextFile, frames, number, read_text
from ioweather.readers.text_files import plain_head

_FIGURE: Final = r"[0-9][0-9.]{0,30}(?:e[+-][0-9]{1,3})?"
_IOR: Final = re.compile(rf"(write|read),([0-9]{{1,9}})((?:,(?:{_FIGURE}|inf|-?nan)){{4}})")
_IOR_HEAD: Final = re.compile(r"access,rank,[\w,-]{1,200}")
_MDTEST_HEAD: Final = re.compile(r"rank,items(?:,rate-[^,\n]{1,60},time-[^,\n]{1,60}){1,40}")
_OPERATIONS: Final = {"creation": "create", "stat": "stat", "read": "read", "removal": "delete", "rename": "rename"}


@dataclass(frozen=True)
class RankDetailsSource:
    name: str = "rank_details"
    title: str = "figures of every rank of IOR and mdtest (CSV files of IO500 submissions)"
    tables: tuple[str, ...] = ("benchmarks", "events")

    def detect(self, head: bytes, path: Path) -> float:
        first = plain_head(head).partition("\n")[0].strip()
        return 0.9 if any(form.fullmatch(first) for form in (_IOR, _IOR_HEAD, _MDTEST_HEAD)) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        text = read_text(path)
        lines = [line.strip() for line in text.whole_lines if line.strip()]
        is_mdtest = bool(lines) and _MDTEST_HEAD.fullmatch(lines[0]) is not None
        phases = _mdtest(text, lines) if is_mdtest else list(_ior(text, lines))
        if phases:
            yield from frames(self.name, text, phases, context)
        if text.torn or not phases:
            raise TruncatedInput(
                f"{path} ends within the figures of its ranks.", hint="Copy it again; what is whole is kept."
            )


def _ior(text: TextFile, lines: list[str]) -> Iterator[Phase]:
    """One phase for each access and repetition: ranks begin again at 0."""
    name = _stem(text.path)
    runs: list[tuple[str, list[tuple[float | None, float | None]]]] = []
    for place, line in enumerate(lines):
        if place == 0 and _IOR_HEAD.fullmatch(line):
            continue
        match = _IOR.fullmatch(line)
        if match is None:
            raise CorruptInput(f"{text.path}: expected 'write,0,...' with four figures, found {line[:60]!r}.")
        if match[2] == "0" or not runs or runs[-1][0] != match[1]:
            runs.append((match[1], []))
        seconds, _, rate, _ = (number(word) for word in match[3][1:].split(","))
        runs[-1][1].append((seconds, rate))
    for iteration, (access, ranks) in enumerate(runs):
        known = [(seconds, rate) for seconds, rate in ranks if seconds and rate]
        slowest = max((seconds for seconds, _ in known), default=None)
        moved = sum(seconds * rate for seconds, rate in known)
        yield Phase(
            name=f"{name}/ranks" + (f"/{iteration}" if iteration else ""),
            operation=access,
            bytes_per_s=moved / slowest if slowest else None,
            duration_seconds=slowest,
            details={"ranks": len(ranks), "fastest_rank_seconds": min((s for s, _ in known), default=None)},
        )


def _mdtest(text: TextFile, lines: list[str]) -> list[Phase]:
    tests = [column.removeprefix("rate-") for column in lines[0].split(",")[2::2]]
    whole = [line.split(",") for line in lines[1:] if line.startswith("all,")]
    ranks = sum(line[:1].isdigit() for line in lines[1:])
    phases = []
    for iteration, words in enumerate(whole):
        if len(words) != 2 + 2 * len(tests):
            raise CorruptInput(f"{text.path}: the line 'all' has {len(words)} figures in {2 + 2 * len(tests)} columns.")
        for test, rate, seconds in zip(tests, words[2::2], words[3::2], strict=True):
            if number(rate):
                phases.append(
                    Phase(
                        name=f"{_stem(text.path)}/{test}" + (f"/{iteration}" if iteration else ""),
                        operation=_OPERATIONS.get(test.split()[-1].lower(), test.split()[-1].lower()),
                        ops_per_s=number(rate),
                        duration_seconds=number(seconds),
                        details={"ranks": ranks},
                    )
                )
    return phases


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".csv")[:100]


SOURCE: Final = RankDetailsSource()
