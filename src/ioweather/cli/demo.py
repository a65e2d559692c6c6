"""`ioweather demo`."""

from __future__ import annotations

from pathlib import Path

import click

from ioweather.cli.options import progress_bar
from ioweather.cli.screen import say


@click.command(epilog="Example: ioweather demo")
@click.option("--out", type=click.Path(path_type=Path), help="Where to make it (default: beside your lake).")
def demo(out: Path | None) -> None:
    """Make a small simulated facility, read it into its own lake, and show four exhibits."""
    from ioweather.cli.render import print_exhibit
    from ioweather.workflows.site.demo import make_demo

    with progress_bar() as progress:
        made = make_demo(out, progress=progress)
    say(f"A simulated facility is in {made.lake}: {made.days} days of {made.servers} file servers.", "")
    for exhibit in made.exhibits:
        print_exhibit(exhibit, "text")
    say("Look around:")
    for line in (
        f"ioweather exhibits --ready --lake {made.lake}",
        f"ioweather show don15.fig6 --lake {made.lake}",
        f"ioweather show car11.fig6 --lake {made.lake} --out traffic.html",
    ):
        say(f"  {line}")
