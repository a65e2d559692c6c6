"""`ioweather demo`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ioweather.cli.options import progress_bar
from ioweather.cli.screen import say


@click.command(epilog="Example: ioweather demo")
@click.option("--out", type=click.Path(path_type=Path), help="Where to make it (default: beside your lake).")
def demo(out: Path | None) -> None:
    """Make a small simulated facility, read it into its own lake, and ask it four questions."""
    from ioweather.cli.answers import show_answer
    from ioweather.questions.catalogue import QUESTIONS
    from ioweather.store.lake import open_lake
    from ioweather.workflows.site.demo import make_demo, tour

    with progress_bar() as progress:
        made = make_demo(out, progress=progress)
    say(f"A simulated facility is in {made.lake}: {made.days} days of {made.servers} file servers.", "")
    where = f"--lake {shlex.quote(str(made.lake))}"
    for step in tour(open_lake(made.lake)):
        say(f"{step.wants}  (ioweather {step.command} {where})", "")
        if step.answer.name == "why":
            show_answer(step.answer, "text", brief=QUESTIONS["why"].brief)
        else:
            say(step.answer.headline, wrap=80, first="  ", rest="  ")
        say("")
    say("Look around:")
    for line in (
        f"ioweather serve {where}",
        f"ioweather report {where} --for director --out report.html",
        f"ioweather exhibits --ready {where}",
        f"ioweather show car11.fig7 {where}",
    ):
        say(f"  {line}")
