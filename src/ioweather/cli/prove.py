"""What `ioweather doctor --prove` prints: the answers, then what was planted, then the one against the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ioweather.cli.options import progress_bar
from ioweather.cli.render import print_rows
from ioweather.cli.screen import say, say_csv, say_json, to_csv
from ioweather.core.units import format_bytes, format_value

if TYPE_CHECKING:
    from ioweather.workflows.prove.prove import Answered, Proof, Row

_TITLES: Final = {
    "verdict": "Was it you or the system? (why)",
    "advice": "What was seen in the log (job)",
    "probe": "What the probe measured meanwhile",
}
_MARKS: Final = {"right": "✓", "wrong": "✗"}


def prove_here(place: str, form: str) -> int:
    from ioweather.workflows.prove.prove import MOST_WRITTEN_BYTES, prove

    target = Path(place).absolute()
    if form == "text":
        most = format_bytes(MOST_WRITTEN_BYTES)
        text = f"Plants small causes in {target} for about two minutes: at most {most} are written, most of it to the"
        say(f"{text} same places again. Nothing stays.", err=True, wrap=80)
    with progress_bar() as progress:
        answered = prove(target, progress=progress)
    if form == "text":
        _print_answers(answered)
    planted, proof = answered.reveal()
    if form == "json":
        say_json(_object(answered, list(map(str, planted)), proof))
    elif form == "csv":
        columns, rows = _listing(proof)
        say_csv(to_csv(columns, rows))
    else:
        say("", "What was planted, in the same order:", "")
        say(", ".join(f"{number} {cause}" for number, cause in enumerate(planted, 1)) + ".", wrap=80)
        _print_proof(proof)
        say("", f"{len(planted)} runs in {format_value(answered.seconds, 'seconds')}.")
    return 1 if proof.wrong else 0


def _print_answers(answered: Answered) -> None:
    say("What ioweather says of each run, before it is told what was planted:", "")
    print_rows(
        ("run", "I/O time", "verdict", "sure", "seen in the log", "probe"),
        [
            (
                number,
                format_value(said.io_seconds, "seconds"),
                said.verdict if said.reason is None else f"{said.verdict}: {said.reason.replace('_', ' ')}",
                format_value(said.probability, "ratio") if said.probability else "",
                said.patterns[0].replace("_", " ") if said.patterns else "",
                said.probe if said.probe_factor is None else f"{said.probe} ({said.probe_factor:.1f}x)",
            )
            for number, said in enumerate(answered.answers.said, 1)
        ],
        "text",
    )


def _print_proof(proof: Proof) -> None:
    from ioweather.workflows.prove.prove import COLUMNS

    for sense, columns in COLUMNS.items():
        say("", _TITLES[sense], "")
        rows = [
            (_MARKS.get(row.state, "·"), str(row.planted), *(row.answered.get(c, 0) for c in columns), _right(row))
            for row in proof.rows
            if row.sense == sense
        ]
        print_rows(("", "planted", *columns, "right"), rows, "text")
    say("")
    for mark, sentence in (*((("✗", s)) for s in proof.wrong), *(("·", s) for s in _notes(proof))):
        say(f"{mark} {sentence}", wrap=80, rest="  ")
    if not proof.wrong:
        say("✓ Every cause that was felt here was named.")


def _right(row: Row) -> str:
    return f"{row.right} of {row.counted}" if row.state in _MARKS else row.state


def _notes(proof: Proof) -> Iterator[str]:
    """Why rows count fewer runs than there were."""
    verdicts = [row for row in proof.rows if row.sense == "verdict"]
    slow = sum(row.runs - row.counted for row in verdicts if row.right_is_normal)
    if slow:
        were = "run was" if slow == 1 else "runs were"
        yield f"{slow} {were} slow though nothing was planted: something else used this storage. Not counted."
    for row in verdicts:
        if row.state == "not felt":
            yield f"{row.planted}: at most one run took longer, so whether it is found is not known."
        elif row.state == "no samples":
            yield f"{row.planted}: this machine has no samples of the devices below, so the cause cannot be known."
        elif row.counted < row.runs and not row.right_is_normal:
            yield f"{row.planted}: {row.runs - row.counted} of {row.runs} runs took no longer, and do not count."


def _listing(proof: Proof) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    from ioweather.workflows.prove.prove import COLUMNS

    columns = ("sense", "planted", "answered", "runs", "state")
    rows = [
        (row.sense, str(row.planted), column, row.answered.get(column, 0), row.state)
        for row in proof.rows
        for column in COLUMNS[row.sense]
    ]
    return columns, list(rows)


def _object(answered: Answered, planted: list[str], proof: Proof) -> dict[str, object]:
    from ioweather.core.results import to_jsonable

    return {
        "seconds": answered.seconds,
        "devices": list(answered.evidence.devices),
        "written_bytes": answered.evidence.written_bytes,
        "device_bytes": answered.answers.device_bytes,
        "runs": [
            {"planted": cause, **to_jsonable(said)} for cause, said in zip(planted, answered.answers.said, strict=True)
        ],
        "matrix": to_jsonable(proof.rows),
        "wrong": list(proof.wrong),
    }
