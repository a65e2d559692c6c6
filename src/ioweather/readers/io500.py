"""IO500: result_summary.txt (or what it prints to the terminal) and result.txt."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, TruncatedInput
from ioweather.core.foreign_text import whole_number
from ioweather.core.frames import Frame
from ioweather.core.units import GIB
from ioweather.readers.benchmark_phases import (
    LocalTimes,
    Phase,
    TextFile,
    end_of,
    frames,
    latest,
    number,
    read_text,
    scaled,
    within,
)
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import plain_head

# '[RESULT] ior-easy-write 352.8 GiB/s : time 386.7 seconds', '[RESULT] BW phase 1 ior_easy_write 7.7 GB/s : time ...',
# '[      ]' for phases that do not count, '[RESULT-invalid]' or a trailing '[INVALID]'.
_RESULT: Final = re.compile(
    r"\[ {0,9}(?:RESULT)?(-invalid)? {0,9}\]\s+(?:(?:BW|IOPS)\s+)?(?:phase\s+\d+\s+)?([A-Za-z][\w-]*)\s+"
    r"([\d.]+|-?nan)\s+(GiB/s|GB/s|kIOPS|kiops)\s*:\s*time\s+([\d.]+)\s+seconds(\s+\[INVALID\])?\s*$"
)
_SCORE: Final = re.compile(
    r"\[(SCOREX?)(-invalid)? *\]\s+Bandwidth\s+(\S+)\s+Gi?B/s\s*:\s*IOPS\s+(\S+)\s+kiops\s*:\s*TOTAL\s+([\d.]+)"
    r"(\s+\[INVALID\])?"
)
_VERSION: Final = re.compile(r"IO500 version (\S+)(?: \((\w+)\))?")
_SECTION: Final = re.compile(r"^\[(?:ior|mdtest)-[\w-]+\]\s*$", re.MULTILINE)
_SECTION_SCORE: Final = re.compile(r"^score +=", re.MULTILINE)
_EDGE: Final = re.compile(r"^; (START|END) (.*)$")
_PREAMBLE: Final = "before the sections"
# A phase that only notes the time.
_MARK: Final = "timestamp"
_ENDINGS: Final = {"read": "read", "write": "write", "stat": "stat", "delete": "delete"}


def _detect_io500(head: bytes, path: Path) -> float:
    text = plain_head(head)
    # Above IOR and mdtest, which IO500 runs and whose words may stand in the same output.
    if any(_RESULT.match(line) for line in text.splitlines()):
        return 0.95
    return 0.95 if _SECTION.search(text) and _SECTION_SCORE.search(text) else 0.0


def _read_io500(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    text = read_text(path)
    if any(_SECTION.match(line) for line in text.lines):
        phases, complete = _from_sections(text, context)
    else:
        phases, complete = _from_summary(text)
    if phases:
        yield from frames("io500", text, phases, context)
    if not complete:
        raise TruncatedInput(
            f"{path} ends before the score of IO500.",
            hint="The benchmark was stopped or is still running; the phases that ended are kept.",
        )


IO500 = FileReader(
    "io500",
    "IO500 results (result_summary.txt, result.txt, io-500-summary of the shell scripts)",
    ("benchmarks", "events"),
    _detect_io500,
    _read_io500,
    tried="result.txt of 2020 and 2021, io-500-summary of 2018 to 2020; result_summary.txt",
    made_by="io500 config.ini; keep its results folder",
    lost="times, where the file has none",
    used_by="car11.table1, kun19.fig3 (phases)",
)


def _from_summary(text: TextFile) -> tuple[list[Phase], bool]:
    phases: list[Phase] = []
    run, prefix, scored = 0, "", False
    details: dict[str, Any] = {}
    seen: dict[str, tuple[str, ...]] = {}
    for line in text.whole_lines:
        if match := _VERSION.search(line):
            run, scored, seen = run + 1, False, {}
            prefix = "" if run == 1 else f"run{run}/"
            details = {"version": match[1], "mode": match[2]}
        elif (match := _RESULT.match(line.strip())) and match[2] != _MARK:
            invalid, name, value, _, seconds, flag = match.groups()
            name = name.replace("_", "-")  # scripts and program write it differently, perhaps in one file
            if seen.get(name) == (value, seconds):
                continue  # the shell scripts print each result again under [Summary]
            if name in seen:  # another run whose first lines are not there
                run, scored, seen = run + 1, False, {}
                prefix = f"run{run}/"
            seen[name] = (value, seconds)
            run = max(run, 1)
            rated = _rated(name, number(value), details | _validity(bool(invalid or flag)))
            phases.append(Phase(name=prefix + name, duration_seconds=number(seconds), **rated))
        elif match := _SCORE.search(line):
            name, figures = match[1].lower(), (match[3], match[4], match[5])
            if seen.get(name) == figures:
                continue  # printed again
            if name in seen:  # other figures of the same name: the next run begins
                run, seen = run + 1, {}
                prefix = f"run{run}/"
            seen[name], scored = figures, True
            invalid = bool(match[2] or match[6])
            phases.append(_score(prefix + name, match[3], match[4], match[5], invalid, details))
    return phases, scored


def _from_sections(text: TextFile, context: ReadContext) -> tuple[list[Phase], bool]:
    parser = configparser.ConfigParser(interpolation=None, strict=True, delimiters=("=",), comment_prefixes=(";", "#"))
    try:
        # Results of 2020 say version and configuration before the first section.
        # The parser's own patterns take time in the square of a run of blanks.
        lines = (f"{line[:1] if line[:1].isspace() else ''}{' '.join(line.split())}" for line in text.whole_lines)
        parser.read_string("\n".join([f"[{_PREAMBLE}]", *lines]), source=str(text.path))
    except configparser.Error as error:
        raise CorruptInput(
            f"{text.path} is not a result.txt of IO500: {' '.join(error.message.split())}.",
            hint="Ingest the file as the benchmark wrote it.",
        ) from None
    times = LocalTimes(text.path, context.zone)
    edges = {match[1]: match[2] for line in text.whole_lines if (match := _EDGE.match(line))}
    start_ns = times.ns(edges.get("START", ""))
    about_run = parser["run"] if parser.has_section("run") else parser[_PREAMBLE]
    details = {name: about_run.get(name) for name in ("version", "mode")} | {"tasks": _whole(about_run.get("procs"))}
    phases = [
        _section_phase(name, section, times, details)
        for name, section in parser.items()
        if "score" in section and not name.startswith("SCORE") and name != _MARK
    ]
    for name in ("SCORE", "SCOREX"):
        if parser.has_section(name):
            total, _, flag = parser[name].get("score", "").partition(" ")
            phases.append(
                _score(name.lower(), parser[name].get("bw"), parser[name].get("md"), total, bool(flag), details)
            )
    end_ns = times.ns(edges.get("END", ""))
    # The run itself stays off the time line: its phases, one after the other, are there.
    whole = Phase(name="run", start_ns=start_ns, end_ns=end_ns, details=details, marks_time=False)
    return [whole, *within(whole, phases)], parser.has_section("SCORE")


def _section_phase(name: str, section: configparser.SectionProxy, times: LocalTimes, details: dict[str, Any]) -> Phase:
    start_ns, end_ns = times.ns(section.get("t_start", "")), times.ns(section.get("t_end", ""))
    duration = number(section.get("t_delta"))
    command = section.get("exe")
    return Phase(
        name=name,
        duration_seconds=duration,
        start_ns=start_ns,
        end_ns=latest(end_ns, end_of(start_ns, duration)),
        command=command,
        target=_directory(command or ""),
        **_rated(name, number(section["score"]), details),
    )


def _directory(command: str) -> str | None:
    """Where the phase worked: IOR is given a file (-o), mdtest a directory (-d)."""
    if match := re.search(r" -o (/\S+)/[^/\s]+(?: |$)", command):
        return match[1]
    match = re.search(r" -d (/\S+)", command)
    return match[1] if match else None


def _rated(name: str, value: float | None, details: dict[str, Any]) -> dict[str, Any]:
    """IO500 gives GiB/s to phases that begin with an i (IOR) and thousands of operations per second to all others.

    'GB/s' of its first versions is MiB/s divided by 1024: the same GiB/s under another name. A phase that failed has 0.
    """
    value = value or None
    rate = {"bytes_per_s": scaled(value, GIB)} if name.startswith("i") else {"ops_per_s": scaled(value, 1000)}
    return {"operation": _operation(name), "details": details, **rate}


def _operation(name: str) -> str:
    words = re.split(r"[-_]", name)
    ending = next((_ENDINGS[word] for word in reversed(words) if word in _ENDINGS), words[0])
    # mdtest's write phases create files.
    return "create" if words[0] == "mdtest" and ending == "write" else ending


def _score(
    name: str, bandwidth: str | None, rate: str | None, total: str, invalid: bool, details: dict[str, Any]
) -> Phase:
    """The geometric means of IO500, and its score, which has no unit."""
    return Phase(
        name=name,
        bytes_per_s=scaled(number(bandwidth), GIB),
        ops_per_s=scaled(number(rate), 1000),
        details=details | {"score": number(total)} | _validity(invalid),
    )


def _validity(invalid: bool) -> dict[str, bool]:
    return {"valid": False} if invalid else {}


def _whole(text: str | None) -> int | None:
    return whole_number(text) if text is not None else None
