"""`ioweather simulate` and `ioweather simulate score`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ioweather.cli.options import engine_options, executor, progress_bar
from ioweather.cli.screen import say, say_json
from ioweather.core.errors import UsageError

if TYPE_CHECKING:
    from ioweather.workflows.score.card import Line, ScoreCard


@click.group(invoke_without_command=True, epilog="Example: ioweather simulate --preset laptop --out facility")
@click.option("--preset", default="laptop", show_default=True, help="Which facility; see --list.")
@click.option("--days", type=int, help="For how long (default: as the preset says).")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed, another facility of the kind.")
@click.option("--out", type=click.Path(path_type=Path), help="A new directory for the files.")
@engine_options("none, in one process")
@click.option("--list", "list_presets", is_flag=True, help="List the presets.")
@click.pass_context
def simulate(
    context: click.Context,
    preset: str,
    days: int | None,
    seed: int,
    out: Path | None,
    list_presets: bool,
    engine: dict[str, Any],
) -> None:
    """Make a facility whose truth is known: files as real tools write them."""
    if context.invoked_subcommand is not None:
        return
    from ioweather.simulate.generate import generate
    from ioweather.simulate.presets import PRESETS, for_days, preset_named

    if list_presets:
        from ioweather.cli.render import print_rows

        rows = [(p.name, p.title, p.days, p.jobs, p.osts) for p in PRESETS.values()]
        print_rows(("preset", "what", "days", "jobs", "targets"), rows, "text")
        return
    if out is None:
        raise UsageError("Say where to make it: --out DIR.")
    chosen = preset_named(preset)
    chosen = for_days(chosen, days) if days else chosen
    with progress_bar() as progress, executor(engine, None, progress) as pool:
        made = generate(chosen, out, seed=seed, executor=pool, progress=progress)
    say(
        f"{made.preset}, seed {made.seed}: {made.days} days, {made.jobs:,} jobs, {made.runs:,} runs, "
        f"{made.logs:,} Darshan logs in {made.data}."
    )
    say(f"What was planted is in {made.truth}.", "")
    say(f"  ioweather simulate score {shlex.quote(str(made.out))}")


@simulate.command(epilog="Example: ioweather simulate score facility")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--question", "questions", multiple=True, help="Only this question; may be given again.")
@engine_options("none, in one process")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def score(directory: Path, questions: tuple[str, ...], as_json: bool, engine: dict[str, Any]) -> int:
    """Read the facility in DIRECTORY into a lake, and set every answer beside what was planted.

    Exit code 1: an answer is worse than the stored baseline.
    """
    from ioweather.workflows.score.card import score as run

    with progress_bar() as progress, executor(engine, None, progress) as pool:
        card = run(directory, questions=questions, executor=pool, progress=progress)
    if as_json:
        say_json(card.jsonable())
    else:
        _print(card)
    return 1 if card.worse else 0


def _print(card: ScoreCard) -> None:
    from ioweather.cli.render import print_rows

    rows = [row for line in card.lines if (row := _row(line)) is not None]
    print_rows(("question", "what", "planted", "found", "error", ""), rows, "text")
    for line in card.lines:
        if line.item is None:
            say(f"{line.question}: {line.note}")
    say("", f"{card.good} of {len(card.scored)} within what is allowed ({card.preset}, seed {card.seed}).")
    if not card.baseline:
        say("There is no stored baseline for this facility.")
    elif card.worse:
        say("Worse than the stored baseline: " + "; ".join(line.key for line in card.worse) + ".")
    else:
        say("Nothing is worse than the stored baseline.")


def _row(line: Line) -> tuple[str, ...] | None:
    from ioweather.core.units import format_value

    item = line.item
    if item is None:
        return None
    planted, recovered = (
        "-" if value is None else format_value(value, item.unit) for value in (item.planted, item.recovered)
    )
    error = "-" if item.error is None else f"{item.error:.3f}" if item.measure != "factor" else f"{item.error:.1%}"
    mark = "worse" if line.worse else "" if item.good else "off"
    return line.question, item.name, planted, recovered, error, mark
