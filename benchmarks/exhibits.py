"""All exhibits of the papers on one or more lakes: made, empty, not possible or failed; and printed values beside ours.

    python benchmarks/exhibits.py LAKE [LAKE ...] [--why]

A failure is a mistake of ours: whatever is not there is a state with a reason. `--why` prints the reasons.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ioweather.core.errors import DataUnavailable
from ioweather.core.papers import PAPERS, exhibits, published
from ioweather.core.papers.claim_tests import match_published
from ioweather.core.results import Exhibit
from ioweather.lake.lake import Lake
from ioweather.topics.analyse import availability, each_exhibit

STATES = ("made", "empty", "not possible", "failed")


@dataclass(frozen=True)
class Outcome:
    """`beside`: printed values that have a value of this lake in their row."""

    state: str
    why: str = ""
    beside: int = 0


def outcomes(folder: Path) -> dict[str, Outcome]:
    lake = Lake(folder)
    with lake.snapshot() as snapshot:
        ready = {item.id: item.ready for item in availability(snapshot)}
        reasons = {item.id: "; ".join(item.missing) for item in availability(snapshot)}
    found = {name: Outcome("not possible", reasons[name]) for name, is_ready in ready.items() if not is_ready}
    made = each_exhibit(lake, [name for name, is_ready in ready.items() if is_ready])
    return found | {name: _outcome(exhibit) for name, exhibit in made.items()}


def _outcome(made: Exhibit | Exception) -> Outcome:
    if isinstance(made, DataUnavailable):
        return Outcome("empty", made.message)
    if isinstance(made, Exception):
        return Outcome("failed", f"{type(made).__name__}: {made}")
    if made.empty_because:
        return Outcome("empty", made.empty_because)
    beside = len(match_published(made))
    return Outcome("made", beside=beside)


def table(name: str, found: Mapping[str, Outcome]) -> None:
    counts = [sum(outcome.state == state for outcome in found.values()) for state in STATES]
    beside, printed = sum(o.beside for o in found.values()), sum(len(published(e.id)) for e in exhibits())
    print(f"| {name} | {' | '.join(map(str, counts))} | {beside} of {printed} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lakes", type=Path, nargs="+")
    parser.add_argument("--why", action="store_true")
    options = parser.parse_args()
    every = {lake: outcomes(lake) for lake in options.lakes}
    print(f"| lake | {' | '.join(STATES)} | printed values beside ours |\n|---|---|---|---|---|---|")
    for lake, found in every.items():
        table(lake.name, found)
    for lake, found in every.items():
        for key in PAPERS:
            mine = {n: o for n, o in found.items() if n.startswith(f"{key}.")}
            print(f"\n{lake.name}, {key}: {sum(o.beside for o in mine.values())} of "
                  f"{sum(len(published(n)) for n in mine)} printed values beside ours")  # fmt: skip
            for name, outcome in mine.items():
                if outcome.state == "failed" or (options.why and outcome.state != "made"):
                    print(f"- {name}: {outcome.state}: {outcome.why}")


if __name__ == "__main__":
    main()
