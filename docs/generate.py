"""Writes the pages of docs/reference that follow from the code: tables, commands, sources.

    python docs/generate.py          write them
    python docs/generate.py --check  say which are out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ioweather.cli.main import COMMANDS, cli
from ioweather.sources.catalogue import SOURCES
from ioweather.tables import LAKE_COLUMNS, METRICS, TABLES

REFERENCE = Path(__file__).parent / "reference"
_LAKE_DOCS = {
    "source": "which source the row came from",
    "ingest_id": "which ingest brought it; sorts by time",
    "day": "UTC date of the row's time: the partition",
}


def tables_page() -> str:
    lines = [
        "# Tables of the lake\n",
        "Times are UTC nanoseconds; sizes are bytes; missing is NULL. Every table also has "
        + ", ".join(f"`{name}` ({_LAKE_DOCS[name]})" for name in LAKE_COLUMNS)
        + ".\n",
    ]
    for name, spec in sorted(TABLES.items()):
        kind = "Revisable: the newest row of a key counts." if spec.revisable else "A row enters once."
        lines += [f"## {name}\n", f"{spec.doc} {kind} Key: {', '.join(f'`{k}`' for k in spec.key)}.\n"]
        lines += ["| column | type | meaning |", "|---|---|---|"]
        lines += [f"| `{c.name}` | {c.type}{', nullable' if c.nullable else ''} | {c.doc} |" for c in spec.columns]
        lines.append("")
    lines.append("## Metrics of series\n")
    lines.append("Extensive metrics are amounts in the interval; intensive ones are means over it.\n")
    lines += ["| metric | unit | kind | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{m.name}` | {m.unit} | {'extensive' if m.extensive else 'intensive'} | {m.doc} |" for m in METRICS.values()
    ]
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    lines = [
        "# Commands\n",
        "Exit codes: 0 done; 1 done, but something was left out; 2 not done; 130 interrupted.\n",
    ]
    root = click.Context(cli, info_name="ioweather", terminal_width=80, **cli.context_settings)
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        lines += _help(command, name, root)
    return "\n".join(lines) + "\n"


def _help(command: click.Command, name: str, parent: click.Context) -> list[str]:
    context = click.Context(command, info_name=name, parent=parent, max_content_width=80, terminal_width=80)
    lines = [f"## {context.command_path}\n", "```text", command.get_help(context).rstrip(), "```\n"]
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            child = command.get_command(context, sub)
            if child is not None:
                lines += _help(child, sub, context)
    return lines


def sources_page() -> str:
    lines = ["# Sources\n", "What `ioweather ingest` reads, recognised by content.\n"]
    lines += ["| source | reads | into |", "|---|---|---|"]
    lines += [f"| `{name}` | {s.title} | {', '.join(f'`{t}`' for t in s.tables)} |" for name, s in SOURCES.items()]
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    return {
        REFERENCE / "tables.md": tables_page(),
        REFERENCE / "commands.md": commands_page(),
        REFERENCE / "sources.md": sources_page(),
    }


def main() -> None:
    stale = [p for p, text in pages().items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        sys.exit("out of date: " + ", ".join(p.name for p in stale) if stale else 0)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
