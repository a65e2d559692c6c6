"""What building the site adds: pages that the navigation does not name, and pictures of exhibits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_DOCS = Path(__file__).parent
_PICTURES = _DOCS / "reference" / "pictures"
_SECTIONS = {"how-to": "How to", "sources": "How to", "reference": "Reference", "explanation": "Explanation"}
_EXHIBIT = re.compile(r"^### (\w+\.\w+)\n\n\*\*(.+?)\.\*\*.*$", re.MULTILINE)


def on_config(config: Any, **_: Any) -> Any:
    """A new page stands at the end of its section until somebody gives it a better place in mkdocs.yml."""
    named = set(re.findall(r"[\w/-]+\.md", str(config.nav)))
    for folder, title in _SECTIONS.items():
        (section,) = (entry[title] for entry in config.nav if title in entry)
        section += [path for page in sorted((_DOCS / folder).glob("*.md"))
                    if (path := f"{folder}/{page.name}") not in named]  # fmt: skip
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_uri != "reference/exhibits.md":
        return markdown

    def with_picture(match: re.Match[str]) -> str:
        name, title = match.groups()
        if not (_PICTURES / f"{name}.png").exists():
            return match[0]
        return f"{match[0]}\n\n![{name} of the simulated facility: {title}](pictures/{name}.png){{loading=lazy}}"

    return _EXHIBIT.sub(with_picture, markdown)
