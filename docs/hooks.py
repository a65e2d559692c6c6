"""What building the site adds: pages that the navigation does not name, pictures of exhibits, and the contact sheet."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

_DOCS = Path(__file__).parent
_PICTURES = _DOCS / "reference" / "pictures"
_SECTIONS = {"how-to": "How to", "sources": "How to", "reference": "Reference", "explanation": "Explanation"}
_LIST = re.compile(r"(?:^- \[.+\n)+", re.MULTILINE)
_ENTRY = re.compile(r"- \[(\w+\.\w+)\]\(exhibits\.md(#\w+)\): (.+)")
_GRID = "display:grid;grid-template-columns:repeat(auto-fill,minmax(7rem,1fr));gap:1rem;font-size:.65rem"
_THUMB = "width:100%;height:6rem;object-fit:contain;object-position:top;background:#fff;border:1px solid #ddd"
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
    if page.file.src_uri == "reference/gallery.md":
        return _LIST.sub(_grid, markdown)
    if page.file.src_uri != "reference/exhibits.md":
        return markdown

    def with_picture(match: re.Match[str]) -> str:
        name, title = match.groups()
        if not (_PICTURES / f"{name}.png").exists():
            return match[0]
        return f"{match[0]}\n\n![{name} of the simulated facility: {title}](pictures/{name}.png){{loading=lazy}}"

    return _EXHIBIT.sub(with_picture, markdown)


def _grid(match: re.Match[str]) -> str:
    """A list of exhibits as thumbnails that lead to them; the list itself where one is missing."""
    cells = []
    for name, anchor, title in _ENTRY.findall(match[0]):
        if not (_PICTURES / "thumbs" / f"{name}.png").exists():
            return match[0]
        image = f'<img src="pictures/thumbs/{name}.png" alt="{escape(title)}" loading="lazy" style="{_THUMB}">'
        cells.append(f'<a href="exhibits.html{anchor}">{image}<br><b>{name}</b> {escape(title)}</a>')
    return f'<div style="{_GRID}">{"".join(cells)}</div>\n'
