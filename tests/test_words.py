"""The words that users read: those of the right-hand column of docs/reference/style.md occur nowhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STYLE = ROOT / "docs" / "reference" / "style.md"
FORBIDDEN = re.compile(
    r"\bits like\b|\blike runs\b|\banew\b|counts as harm|not well meanwhile|\bas \w+ told\b|Nothing happened that"
    r"|held the truth|is no line of|are the least|beyond all measure|[Nn]othing speaks against|not yet the cause"
    r"|If not,? then|bear it out|Reckoning",
)
PAGES = [
    path
    for path in (*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md")
    if path != STYLE
]


def test_no_word_of_the_list() -> None:
    texts = {str(path.relative_to(ROOT)): " ".join(path.read_text(encoding="utf-8").split()) for path in PAGES}
    found = {name: words for name, text in texts.items() if (words := [m[0] for m in FORBIDDEN.finditer(text)])}
    assert not found, "docs/reference/style.md has plainer words"


def test_the_list_and_the_page_agree() -> None:
    rows = re.findall(
        r"^\| [^|]+ \| ([^|]+) \|$", STYLE.read_text(encoding="utf-8").partition("`make lint`")[0], re.MULTILINE
    )
    phrases = [phrase for row in rows if row not in ("not", "---") for phrase in row.split(", ")]
    assert len(phrases) > 10
    assert not [phrase for phrase in phrases if not FORBIDDEN.search(phrase)]
