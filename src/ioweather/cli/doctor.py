"""`ioweather doctor`."""

from __future__ import annotations

from pathlib import Path

import click

from ioweather.cli.options import lake_option, output_form, output_options, path_option
from ioweather.core.errors import UsageError


@click.command(epilog="Example: ioweather doctor --lake /srv/weather")
@lake_option
@output_options
@path_option(
    "--spool", "DIR", "Spool of an agent; of several, their clocks are compared.", name="spools", multiple=True
)
@click.option(
    "--prove",
    "proven",
    is_flag=False,
    flag_value=".",
    hidden=True,
)
def doctor(lake_dir: str | None, as_json: bool, as_csv: bool, spools: tuple[Path, ...], proven: str | None) -> int:
    """Say what works here, what is missing, and what to do about it.

    Looked at: packages, programs, agents and their spools, space, commits of racing writers, sealing, names that
    facility.toml does not map, clocks of the hosts. Exit code 1 if something is wrong.
    """
    from ioweather.cli.render import print_rows
    from ioweather.workflows.site.doctor import examine

    if proven is not None:
        hint = f"Run: python examples/prove.py {proven} (in the source distribution)"
        raise UsageError("`doctor --prove` is now a script.", hint=hint)
    found = examine(lake_dir, *spools)
    form = output_form(as_json, as_csv)
    marks = {"ok": "✓", "note": "·", "problem": "✗"} if form == "text" else {}
    print_rows(
        ("", "check", "found", "what to do") if form == "text" else ("state", "check", "found", "fix"),
        [(marks.get(c.state, c.state), c.name, c.found, c.fix) for c in found],
        form,
    )
    return 1 if any(c.state == "problem" for c in found) else 0
