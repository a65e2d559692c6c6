"""How often each claim of the five papers is judged wrongly, and found, at sites where it is known to be true or false.

    python benchmarks/claims.py [--sites 40] [--kind TEXT] [--save FILE]

Sites are those of tests/claim_sites.py. `--kind` makes only kinds with this text in their name; `--save` keeps counts
in a JSON file, and adds those of a former call. docs/explanation/claims.md has the table.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from claim_sites import KINDS, count
from ioweather.core.papers.claim_tests import claims

Row = tuple[str, str, str]


def table(found: Counter[Row]) -> str:
    """Return the counts as a Markdown table, a row per claim."""
    lines = [
        "| claim | where false: sites | agrees (wrong) | where at its limit: sites | decided | where true: sites "
        "| agrees | contradicts (wrong) |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for claim in claims():
        counts = {known: Counter({s: n for (c, k, s), n in found.items() if (c, k) == (claim.id, known)})
                  for known in ("false", "at its limit", "true")}  # fmt: skip
        if not any(counts.values()):
            continue
        false, limit, true = counts.values()
        agrees = [each["supported"] + each["weaker"] for each in (false, limit, true)]
        shown = [
            *([false.total(), agrees[0]] if false else ["", ""]),
            *([limit.total(), agrees[1] + limit["refuted"]] if limit else ["", ""]),
            *([true.total(), agrees[2], true["refuted"]] if true else ["", "", ""]),
        ]
        lines.append(f"| {claim.id} | {' | '.join(map(str, shown))} |")
    missing = sorted({claim.id for claim in claims()} - {claim for claim, _, _ in found})
    return "\n".join([*lines, "", f"Not tried: {', '.join(missing)}."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="seed of the first site")
    parser.add_argument("--kind", default="", help="only kinds of sites with this text in their name")
    parser.add_argument("--save", type=Path, help="file of counts")
    options = parser.parse_args()
    kept = json.loads(options.save.read_text()) if options.save and options.save.exists() else {}
    for kind in KINDS:
        if options.kind in kind.name:
            begun = time.process_time()
            found = count(kind, range(options.first, options.first + min(options.sites, kind.sites)))
            kept[kind.name] = [[*row, n] for row, n in sorted(found.items())]
            print(f"{kind.name}: {time.process_time() - begun:.0f} s of a processor", file=sys.stderr, flush=True)
            if options.save:
                options.save.write_text(json.dumps(kept, indent=0))
    total: Counter[Row] = Counter()
    for rows in kept.values():
        total.update({(claim, known, standing): n for claim, known, standing, n in rows})
    print(table(total))


if __name__ == "__main__":
    main()
