"""Words that docs/reference/style.md retires, in docstrings and comments of the source: `make lint` runs this."""

from __future__ import annotations

import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RETIRED = re.compile(
    r"\b(told|heard|hears|reckon\w*|foretell\w*|foretold|meanwhile|alike|whoever|(?<!`)nobody|somebody|asked of"
    r"|taken as|of which another|is no number|what is more)\b"
)


def find_retired_words(path: Path) -> Iterator[str]:
    """One line for each retired word in a docstring or comment."""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            is_docstring = token.type == tokenize.STRING and token.line.lstrip().startswith('"""')
            if token.type != tokenize.COMMENT and not is_docstring:
                continue
            for match in RETIRED.finditer(token.string):
                line = token.start[0] + token.string.count("\n", 0, match.start())
                yield f"{path.relative_to(ROOT)}:{line}: {match[0]}"


def main() -> int:
    found = [line for path in sorted((ROOT / "src").rglob("*.py")) for line in find_retired_words(path)]
    print("\n".join(found[:40]) or "No retired words in docstrings and comments.")
    if len(found) > 40:
        print(f"... and {len(found) - 40} more")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
