"""Writes the pages of docs/reference that follow from the code: tables, commands, sources, exhibits, API.

python docs/generate.py          write them
python docs/generate.py --check  say which are out of date
"""

from __future__ import annotations

import inspect
import json
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import click

import ioweather
from ioweather.core.contracts import Param, Question, Study
from ioweather.core.frames import Frame
from ioweather.core.papers import PAPERS, document, published
from ioweather.core.results import Answer, Estimate, Exhibit, ResultTable
from ioweather.core.tables import LAKE_COLUMNS, METRICS, TABLES, ColumnSpec
from ioweather.ingestion.ingest import IngestReport
from ioweather.job_io.advisor.advise import RULES
from ioweather.lake.lake import Lake, Snapshot
from ioweather.lake.sandbox import SqlResult
from ioweather.readers.darshan.log import DarshanLog
from ioweather.readers.reader_catalogue import SOURCES
from ioweather.stats.mixture import MixtureFit
from ioweather.topics.catalogue import QUESTIONS, STUDIES, TITLES
from ioweather.ui.cli.main import COMMANDS, cli
from ioweather.ui.python_api import signature_of
from ioweather.ui.report.write import equation_html
from ioweather.ui.web.api import answer_schema

REFERENCE = Path(__file__).parent / "reference"
MAN = REFERENCE.parents[1] / "deploy" / "man"
_LAKE_DOCS = {
    "source": "which source the row came from",
    "ingest_id": "which ingest brought it; sorts by time",
    "day": "UTC date of the row's time: the partition",
}


def _metric_range(metric: Any) -> str:
    if not metric.extensive:
        return f"0 to {metric.most('ost'):.3g}"
    return f"0 to {metric.most('ost'):.3g} per second (device: {metric.most('device'):.3g})"


def _may_be(column: ColumnSpec) -> str:
    if column.choices is not None:
        return "one of a list"
    return column.range.label if column.range is not None else ""


def tables_page() -> str:
    lines = [
        "# Tables of the lake\n",
        "Times are UTC nanoseconds; sizes are bytes; missing is NULL. Every table also has "
        + ", ".join(f"`{name}` ({_LAKE_DOCS[name]})" for name in LAKE_COLUMNS)
        + ".\n",
        "Every row is validated on ingestion. A row with a value out of range is skipped, counted and named; the other "
        "rows are stored, and the ledger marks the file as partial. A Darshan log with such a row is rejected, because "
        "its sums would be wrong. Numbers are finite, and ends are not before starts. A time before the year 2000 is "
        "stored and flagged: the clock was not set.\n",
    ]
    for name, spec in sorted(TABLES.items()):
        kind = "Revisable: of several rows with one key, the newest counts." if spec.revisable else "A row enters once."
        lines += [f"## {name}\n", f"{spec.doc} {kind} Key: {', '.join(f'`{k}`' for k in spec.key)}.\n"]
        lines += ["| column | type | may be | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{c.name}` | {c.type}{', nullable' if c.nullable else ''} | {_may_be(c)} | {c.doc} |"
            for c in spec.columns
        ]
        lines.append("")
    lines.append("## Metrics of series\n")
    lines.append(
        "Extensive metrics are amounts in the interval; intensive ones are means over it. A negative amount means that "
        "a counter restarted: the value becomes null, with the flag reset. A value above the possible maximum becomes "
        "null, with the flag over_limit. A ratio up to 0.05 beyond 0 or 1 is sampling jitter and is rounded to "
        "0 or 1.\n"
    )
    lines += ["| metric | unit | kind | may be | meaning |", "|---|---|---|---|---|"]
    lines += [
        f"| `{m.name}` | {m.unit} | {'extensive' if m.extensive else 'intensive'} | {_metric_range(m)} | {m.doc} |"
        for m in METRICS.values()
    ]
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    lines = [
        "# Commands\n",
        "Exit codes: 0 done; 1 done, but something was left out; 2 failed; 130 interrupted.\n",
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


def man_pages() -> dict[Path, str]:
    """ioweather(1), and a page for every command: the same text as --help."""
    root = click.Context(cli, info_name="ioweather", terminal_width=80, **cli.context_settings)
    found = {MAN / "ioweather.1": _man("ioweather", "the weather of your storage", cli.get_help(root))}
    for name, (_, line) in COMMANDS.items():
        command = cli.get_command(root, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=root, max_content_width=80, terminal_width=80)
        title = f"ioweather-{name}"
        found[MAN / f"{title}.1"] = _man(title, line.rstrip("."), command.get_help(context))
    return found


def _man(title: str, line: str, text: str) -> str:
    usage, _, rest = text.partition("\n")
    head = [f'.TH "{title.upper()}" "1" "" "ioweather"', ".SH NAME", f"{_roff(title)} \\- {_roff(line)}"]
    body = [".SH SYNOPSIS", ".nf", _roff(usage.removeprefix("Usage: ")), ".fi", ".SH DESCRIPTION", ".nf"]
    lines = map(_roff, rest.strip("\n").split("\n"))
    return "\n".join([*head, *body, *lines, ".fi", ".SH SEE ALSO", "ioweather(1)"]) + "\n"


def _roff(line: str) -> str:
    """A backslash is roff's escape, a dash a hyphen unless escaped, and a dot or quote at the start a request."""
    escaped = line.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def sources_page() -> str:
    lines = ["# Sources\n", "What `ioweather ingest` reads, recognised by content.\n"]
    lines += ["| source | reads | into |", "|---|---|---|"]
    lines += [f"| `{name}` | {s.title} | {', '.join(f'`{t}`' for t in s.tables)} |" for name, s in SOURCES.items()]
    lines += ["\n## Versions tried, how to make such a file, what is lost, what uses its rows\n"]
    lines += ["| source | tried on real files | made by | not kept | used by |", "|---|---|---|---|---|"]
    described = tomllib.loads((REFERENCE.parent / "sources.toml").read_text(encoding="utf-8"))
    lines += [
        f"| `{name}` | {about['tried']} | `{about['made_by'].replace('|', chr(92) + '|')}` | {about['lost']} | "
        f"{about['used_by']} |"
        for name, about in described.items()
    ]
    return "\n".join(lines) + "\n"


def exhibits_page() -> str:
    lines = [
        "# Exhibits\n",
        "Every table, figure and statement of the five papers that a site can make from its own data: what it shows, "
        "how it is computed, what it needs. Pictures are of the simulated facility of `ioweather demo`; the built "
        "site has them, this file does not. [Papers](papers.md) says how to read the names; `ioweather show` "
        "tells which of them your lake can make.\n",
    ]
    for key, paper in PAPERS.items():
        lines += [f"## {key}\n", f"{paper.citation} Data: {paper.site}.\n", f"{document(key)['method']}\n"]
        for entry in paper.exhibits:
            study = STUDIES[entry.study]
            lines += [f"### {entry.id}\n", f"**{entry.title}.** {entry.what}\n"]
            lines += ["| equation | what it is |", "|---|---|"]
            lines += [f"| {_cell(text)} | {_cell(what)} |" for text, what in entry.equations]
            lines += ["", f"Needs {_needs(study)}.\n"]
            lines += [_printed(entry.id) + "\n", *_params(study)]
            lines += ["```console", f"$ ioweather show {entry.id}", "```\n"]
    return "\n".join(lines) + "\n"


def gallery_page() -> str:
    lines = [
        "# All figures on one page\n",
        "Each exhibit of the simulated facility of `ioweather demo`, by paper. Click one for what it shows, how it is "
        "computed and what it needs. The built site (`make docs`) shows pictures; this file is a list.\n",
    ]
    for key, paper in PAPERS.items():
        lines.append(f"## {key}\n\n{paper.citation}\n")
        lines += [f"- [{each.id}](exhibits.md#{each.id.replace('.', '')}): {each.title}" for each in paper.exhibits]
        lines.append("")
    return "\n".join(lines)


def _cell(equation: str) -> str:
    return equation_html(equation).replace("|", "\\|")


def _needs(study: Study) -> str:
    words: tuple[list[str], list[str]] = ([], [])
    for table, metrics, is_optional in study.each_need():
        words[is_optional].append(f"`{table}`" + (f" ({', '.join(metrics)})" if metrics else ""))
    required, optional = (", ".join(each) for each in words)
    if required and optional:
        return f"{required}; where it is there, also {optional}"
    return required or f"one of {optional}"


def _printed(exhibit_id: str) -> str:
    count = len(published(exhibit_id))
    if not count:
        return "The paper prints no number for it."
    return f"The paper prints {count} number{'s' if count > 1 else ''} for it, shown beside yours."


def _params(study: Study) -> Iterator[str]:
    if not study.params:
        return
    yield from ("| parameter | default | meaning |", "|---|---|---|")
    for param in study.params:
        yield f"| `{param.name}` | {_default(param)} | {param.help.replace('|', chr(92) + '|')} |"
    yield ""


def _default(param: Param) -> str:
    if param.choose is not None:
        return "from the data"
    return "" if param.default is None else f"`{param.default}`"


# What the public functions give back.
_RESULTS: tuple[type, ...] = (
    Lake, Snapshot, Frame, SqlResult, IngestReport, DarshanLog, Exhibit, ResultTable, Answer, Estimate, MixtureFit,
)  # fmt: skip


def api_page() -> str:
    lines = [
        "# API\n",
        f"This is the interface of ioweather {ioweather.__version__}; [versions](versions.md) says what may change.\n",
        "## Python\n",
        "The public interface is these functions and what they give back; everything else may change.\n",
    ]
    for name in ioweather.__all__:
        if not name.startswith("_"):
            made = getattr(ioweather, name)
            lines += [f"### ioweather.{name}\n", "```python", f"{name}{_signature(made)}", "```\n", f"{_doc(made)}\n"]
    for kind in _RESULTS:
        lines += [f"### {kind.__name__}\n", f"{_doc(kind)}\n", "| member | what it is |", "|---|---|"]
        lines += [f"| `{name}` | {text} |" for name, text in _members(kind)]
        lines.append("")
    lines += _http()
    return "\n".join(lines) + "\n"


def _signature(function: Any) -> str:
    """One parameter per line where it would be too long. Annotations are text already."""
    signature = inspect.signature(function)
    inner = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not any(text.startswith("*") for text in inner):
            inner.append("*")
        star = {parameter.VAR_KEYWORD: "**", parameter.VAR_POSITIONAL: "*"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        annotation = str(parameter.annotation).replace("AnyLake", "Lake | str | os.PathLike[str] | None")
        inner.append(f"{star}{parameter.name}: {annotation}{default}")
    short = f"({', '.join(inner)}) -> {signature.return_annotation}"
    if len(short) < 90:
        return short
    return "(\n" + "".join(f"    {text},\n" for text in inner) + f") -> {signature.return_annotation}"


def _doc(thing: Any) -> str:
    text = inspect.getdoc(thing) or ""
    if text.startswith(f"{getattr(thing, '__name__', '')}("):  # a data class without words
        return ""
    words, start, examples = text.partition(">>>")
    return f"{words}```pycon\n{start}{examples}\n```" if start else text


def _members(kind: type) -> Iterator[tuple[str, str]]:
    types = {name: kind.__annotations__[name].__forward_arg__ for name in getattr(kind, "_fields", ())}
    for name, words in types.items() if not is_dataclass(kind) else ((each.name, each.type) for each in fields(kind)):
        if not name.startswith("_"):
            yield name, f"`{words}`".replace("|", "\\|")
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if inspect.isfunction(member):
            arguments = ", ".join(list(inspect.signature(member).parameters)[1:])
            yield f"{name}({arguments})", _first_line(member)
        elif isinstance(member, property):
            yield name, _first_line(member.fget)


def _first_line(thing: Any) -> str:
    words = (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")
    return (words or f"`{inspect.signature(thing).return_annotation}`").replace("|", "\\|")


def _http() -> Iterator[str]:
    from ioweather.ui.web.app import create_app

    described = create_app(Path("lake")).openapi()
    yield "## HTTP\n"
    yield (
        "`ioweather serve` answers these; errors and examples are in [the dashboard and the API]"
        "(../how-to/dashboard.md). `/api/v1/openapi.json` describes it for machines.\n"
    )
    yield from ("| request | what | parameters |", "|---|---|---|")
    for path, methods in described["paths"].items():
        for method, entry in methods.items():
            known = [f"`{p['name']}`" + _choices(p.get("schema", {})) for p in entry.get("parameters", ())]
            words = " ".join((entry.get("description") or entry.get("summary", "")).split())
            yield f"| `{method.upper()} {path}` | {words} | {', '.join(known)} |"
    yield ""


def _choices(schema: dict[str, Any]) -> str:
    return f" ({', '.join(schema['enum'])})" if "enum" in schema else ""


_STUB = '''"""Types of the public interface. Made by docs/generate.py from the questions: do not edit."""

import os
from collections.abc import Sequence
from typing import Literal

from ioweather._version import __version__ as __version__
from ioweather.core.results import Answer
from ioweather.lake.lake import Lake
from ioweather.lake.lake import open_lake as open_lake
from ioweather.readers.darshan.darshan_reader import read_darshan as read_darshan
from ioweather.stats.mixture import fit_mixture as fit_mixture
from ioweather.ui.python_api import exhibits as exhibits
from ioweather.ui.python_api import ingest as ingest
from ioweather.ui.python_api import show as show
from ioweather.ui.python_api import simulate_facility as simulate_facility
from ioweather.ui.python_api import sql as sql
from ioweather.ui.python_api import write_report as write_report

'''


def stub() -> str:
    """The questions as functions, for editors and type checkers."""
    lines = []
    for name, question in QUESTIONS.items():
        parts, starred = [], False
        for parameter in signature_of(question).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY and not starred:
                parts.append("*")
            starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
            star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
            default = "" if parameter.default is parameter.empty else " = ..."
            parts.append(f"{star}{parameter.name}: {parameter.annotation}{default}")
        listed = "".join(f"    {part},\n" for part in parts)
        lines.append(f"def {name}(\n{listed}) -> Answer: ...\n")
    return _STUB + "".join(lines)


def _question_lines(name: str, question: Question) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"{' '.join((question.help or TITLES[name]).split())}\n"
    yield f"`ioweather {name.replace('_', '-')}`, `ioweather.{name}()`, `/api/v1/ask/{name}` "
    who = "Shown to anybody." if question.seen_by == "public" else "People see their own rows, operators all."
    yield f"({who})\n"
    yield "| parameter | kind | default | meaning |\n|---|---|---|---|"
    for param in question.params:
        default = "needed" if param.required else "chosen from the data" if param.choose else param.default
        kind = " or ".join(param.choices) or param.kind + (", several" if param.many else "")
        yield f"| `{param.name}` | {kind} | {'' if default is None else default} | {param.help} |"
    tables = ", ".join(f"`{table}`" for table in sorted(question.tables))
    yield f"\nReads {tables}. The result is a `{question.result.__name__}`:\n"
    yield "| field | type |\n|---|---|"
    kinds: Any = question.result
    yield from (f"| `{field.name}` | {str(field.type).replace('|', 'or')} |" for field in fields(kinds))
    yield ""


def questions_page() -> str:
    lines = [
        "# Questions\n",
        "What people ask, and how programs ask it. The answer is the same from the command, from Python and the API; "
        "[answer.schema.json](answer.schema.json) describes its JSON. `headline`, labels and sentences may change from "
        "version to version; `name` and `result` do not.\n",
    ]
    for name, question in QUESTIONS.items():
        lines += _question_lines(name, question)
    return "\n".join(lines)


def advice_page() -> str:
    lines = [
        "# Rules of the advisor\n",
        "What `ioweather job` and `ioweather why` look for in a log: the condition of each rule, the model of its "
        "saving, its sources, and a program's lines before and after the change. [The advisor](../explanation/advisor.md) "
        "explains the estimated savings. A new rule needs one function in `job_io/advisor` and an entry in "
        "`rules.toml`. `tests/planted_advice.py` has a log that just triggers it and one that just does not.\n",
        "| rule | shown as | about | part | condition | model of the saving |",
        "|---|---|---|---|---|---|",
    ]
    for rule in RULES:
        cells = (rule.headline, rule.dimension.replace("_", " "), rule.part, rule.trigger, rule.model)
        lines.append(f"| [`{rule.name}`](#{rule.name}) | {' | '.join(cells)} |")
    for rule in RULES:
        language = "python" if "import " in rule.after else "sh" if rule.before.startswith("lfs") else "c"
        lines += [
            f"\n## {rule.name}\n",
            f"Shown as *{rule.headline}*. Condition: {rule.trigger}.\n",
            f"Saving: {rule.model}.\n",
            f"Sources: {'; '.join(rule.sources)}.\n",
            f"Before:\n\n```{language}\n{rule.before}\n```\n",
            f"After:\n\n```{language}\n{rule.after}\n```",
        ]
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    return {
        REFERENCE / "advice.md": advice_page(),
        REFERENCE / "tables.md": tables_page(),
        REFERENCE / "commands.md": commands_page(),
        REFERENCE / "sources.md": sources_page(),
        REFERENCE / "exhibits.md": exhibits_page(),
        REFERENCE / "gallery.md": gallery_page(),
        REFERENCE / "api.md": api_page(),
        REFERENCE / "questions.md": questions_page(),
        Path(ioweather.__path__[0]) / "__init__.pyi": stub(),
        REFERENCE / "answer.schema.json": json.dumps(answer_schema(), indent=1) + "\n",
        **man_pages(),
    }


def main() -> None:
    stale = [p for p, text in pages().items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        sys.exit("out of date: " + ", ".join(p.name for p in stale) if stale else 0)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
