"""Precision, recall and F1 of the advisor on public labelled logs; Drishti in the same run.

    python benchmarks/advice.py ../shared/data/advice [--drishti DRISHTI] [--part aside|rest|all]

`logs/` has Darshan logs of IO500 phases, `labels.csv` their problems as TraceBench's codes and six dimensions. Per log
the set of dimensions found is compared with the set labelled, summed over all logs. "seen" are all patterns; "screen"
are those named on the 80 columns that `ioweather job LOG` prints. A third of the logs, chosen by the digest of their
names before any rule was written, is reported apart.

Drishti (PyPI `drishti-io`) runs in an environment of its own: its issues are counted by the dimension they are about.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ioweather.job_io.advisor.advise import RULES, advise
from ioweather.job_io.view import view_of_log
from ioweather.ui.cli.main import run as run_command

Dimensions = frozenset[str]

# Drishti's codes (its includes/config.py) by what they are about. Those that only describe are about none.
DRISHTI: Mapping[str, tuple[str, ...]] = {
    "P05": ("small_or_misaligned",), "P06": ("small_or_misaligned",),
    "P07": ("small_or_misaligned",), "P08": ("small_or_misaligned",),
    "P15": ("small_or_misaligned", "shared_file"), "P16": ("small_or_misaligned", "shared_file"),
    "P09": ("random",), "P10": ("random",), "P11": ("random",), "P13": ("random",),
    "P17": ("metadata",),
    "P18": ("imbalance",), "P19": ("imbalance",), "P21": ("imbalance",), "P22": ("imbalance",),
    "S01": ("interface",), "M01": ("interface",), "M02": ("interface",), "M03": ("interface",),
    "M06": ("interface",), "M07": ("interface",),
}  # fmt: skip

NEXT_LOG = "=== next log ==="
# Run by Drishti's own Python. It keeps its results and its arguments in globals: hence a process for each log.
EACH_LOG = f"""
import os, sys
import darshan, pandas, rich
for path in sys.argv[1:]:
    print({NEXT_LOG!r}, flush=True)
    child = os.fork()
    if not child:
        try:
            sys.argv = ["drishti", "--code", "--issues", path]
            from drishti.reporter import main
            main()
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.waitpid(child, 0)
"""


@dataclass(frozen=True)
class Score:
    logs: int
    hits: int
    named: int
    labelled: int

    @property
    def precision(self) -> float:
        return self.hits / self.named if self.named else 1.0

    @property
    def recall(self) -> float:
        return self.hits / self.labelled if self.labelled else 1.0

    @property
    def f1(self) -> float:
        return 2 * self.hits / (self.named + self.labelled) if self.named + self.labelled else 1.0


def put_aside(name: str) -> bool:
    """A third of the logs, by their names alone."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 3 == 0


def labels(folder: Path) -> dict[str, Dimensions]:
    with (folder / "labels.csv").open(newline="") as file:
        return {row["log"]: frozenset(row["dimensions"].split()) for row in csv.DictReader(file)}


def score(found: Mapping[str, Dimensions], truth: Mapping[str, Dimensions]) -> Score:
    hits = sum(len(found[log] & truth[log]) for log in found)
    return Score(len(found), hits, sum(map(len, found.values())), sum(len(truth[log]) for log in found))


def seen(path: Path) -> Dimensions:
    return frozenset(advice.dimension for advice in advise(view_of_log(path, "keep")).patterns)


def worth(path: Path) -> Dimensions:
    return frozenset(advice.dimension for advice in advise(view_of_log(path, "keep")).worth)


def screen(path: Path) -> Dimensions:
    """The dimensions whose patterns the printed screen names."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        if code := run_command(["job", str(path)]):
            raise RuntimeError(f"ioweather job {path}: exit code {code}")
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    steps = re.findall(r"^ +\d+\. +(.+)$", text.getvalue(), re.MULTILINE)
    seen_too = re.search(r"(?:Also seen|Seen)(?:[,;] [^:]*)?: ([^.]*)", " ".join(" ".join(lines).split()))
    others = seen_too[1].split(", ") if seen_too else []
    return frozenset(
        rule.dimension
        for rule in RULES
        if rule.headline in others
        or any(step.startswith(f"{rule.headline} in ") for step in steps)
        or any(step.startswith(f"{rule.headline}:") for step in steps)
    )


def by_drishti(program: Path, paths: Sequence[Path]) -> dict[str, Dimensions]:
    """By the codes that it prints. Its libraries are loaded once; every log has a process of its own."""
    command = [str(program.with_name("python")), "-c", EACH_LOG, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    told: dict[str, Dimensions] = {}
    for path, text in zip(paths, done.stdout.split(NEXT_LOG)[1:], strict=True):
        codes = re.findall(r"\[([SPM]\d\d)\]", text)
        if "DRISHTI" not in text:
            print(f"Drishti failed on {path.name}: counted as nothing found", file=sys.stderr)
        told[path.name] = frozenset(dimension for code in codes for dimension in DRISHTI.get(code, ()))
    return told


def milliseconds(paths: Sequence[Path]) -> float:
    """Median processor time of reading a log and looking for all patterns."""
    spent = []
    for path in paths:
        begun = time.process_time()
        seen(path)
        spent.append(time.process_time() - begun)
    return 1000 * float(np.median(spent))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with logs/ and labels.csv")
    parser.add_argument("--drishti", type=Path, help="the program `drishti`")
    parser.add_argument("--part", choices=("rest", "aside", "all"), default="all")
    parser.add_argument("--only-drishti", action="store_true", help="leave ioweather out")
    parser.add_argument("--misses", action="store_true", help="what is missed, and what is named too much")
    options = parser.parse_args()
    os.environ["COLUMNS"] = "80"
    truth = labels(options.folder)
    parts = {"rest": [n for n in truth if not put_aside(n)], "aside": [n for n in truth if put_aside(n)]}
    parts["all"] = list(truth)
    tools: dict[str, Callable[[Path], Dimensions]] = {
        "ioweather, seen": seen,
        "ioweather, screen": screen,
        "ioweather, worth changing": worth,
    }
    if options.only_drishti:
        tools.clear()
    if options.drishti:
        told = by_drishti(options.drishti, [options.folder / "logs" / name for name in parts[options.part]])
        tools["Drishti"] = lambda path: told[path.name]
    print("| tool | logs | n | precision | recall | F1 |\n|---|---|---|---|---|---|")
    for tool, look in tools.items():
        found = {name: look(options.folder / "logs" / name) for name in parts[options.part]}
        for part in ("rest", "aside", "all") if options.part == "all" else (options.part,):
            made = score({name: found[name] for name in parts[part]}, truth)
            print(f"| {tool} | {part} | {made.logs} | {made.precision:.3f} | {made.recall:.3f} | {made.f1:.3f} |")
        if options.misses:
            wrong = Counter(
                (name.split("_api_")[0], sign, dimension)
                for name in found
                for sign, names in (("missed", truth[name] - found[name]), ("too much", found[name] - truth[name]))
                for dimension in names
            )
            print(json.dumps({" ".join(key): count for key, count in wrong.most_common()}, indent=1))
    if options.only_drishti:
        return
    logs = [options.folder / "logs" / name for name in parts[options.part]]
    print(f"\n{milliseconds(logs):.1f} ms of a processor a log, reading included (median of {len(logs)})")


if __name__ == "__main__":
    main()
