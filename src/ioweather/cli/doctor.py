"""`ioweather doctor`."""

from __future__ import annotations

from pathlib import Path

import click

from ioweather.cli.options import lake_option, output_form, output_options, path_option

EPILOG = """\b
--prove takes about two minutes: it writes to the disk of DIR in ways that
slow a program down, with a probe beside it, asks `why`, `job` and `storage`
about what it measured, and only then compares the answers with what it did.
Exit code 1 if a cause that was felt was not named, or a run was accused
without one.

\b
Example: ioweather doctor --prove /scratch/me
"""


@click.command(epilog=EPILOG)
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
    metavar="[DIR]",
    help="Plant small harmless causes below DIR (default: here); print what is found.",
)
def doctor(lake_dir: str | None, as_json: bool, as_csv: bool, spools: tuple[Path, ...], proven: str | None) -> int:
    """Say what works here, what is missing, and what to do about it.

    Looked at: packages, programs, agents and their spools, space, commits of racing writers, sealing, names that
    facility.toml does not map, clocks of the hosts. Exit code 1 if something is wrong.
    """
    from ioweather.cli.render import print_rows
    from ioweather.workflows.site.doctor import examine

    if proven is not None:
        from ioweather.cli.prove import prove_here

        return prove_here(proven, output_form(as_json, as_csv))
    found = examine(lake_dir, *spools)
    form = output_form(as_json, as_csv)
    marks = {"ok": "✓", "note": "·", "problem": "✗"} if form == "text" else {}
    print_rows(
        ("", "check", "found", "what to do") if form == "text" else ("state", "check", "found", "fix"),
        [(marks.get(c.state, c.state), c.name, c.found, c.fix) for c in found],
        form,
    )
    return 1 if any(c.state == "problem" for c in found) else 0
