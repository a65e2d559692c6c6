"""How often 90% intervals contain the truth, for every method, on planted series with fresh seeds.

    python benchmarks/coverage.py [--first 1000] [--only TEXT]

The series are those of tests/stats/test_coverage_rates.py, which uses other seeds. docs/explanation/intervals.md has
the table.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from stats.test_coverage_rates import CASES, rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1000, help="seed of all series")
    parser.add_argument("--only", default="", help="only statistics with this text in their name")
    options = parser.parse_args()
    print("| statistic, series | series | have an interval | of these hold |\n|---|--:|--:|--:|")
    for name, (held, _, _) in CASES.items():
        if options.only in name:
            covered, given = rate(held, 200, options.first)
            print(f"| {name} | 200 | {given:.2f} | {covered:.3f} |", flush=True)


if __name__ == "__main__":
    main()
