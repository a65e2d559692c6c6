"""`ioweather why JOBID --server URL`: the verdict of a server. It is a command of its own so that a login node needs
the standard library and click alone, not what computes a verdict."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import click

from ioweather.core.errors import UsageError
from ioweather.core.units import many_lines
from ioweather.ui.cli.screen import say

SERVER_OPTIONS = (
    click.Option(["--line"], is_flag=True, help="Print one plain line, with the recorded verdict if there is one."),
    click.Option(["--block"], is_flag=True, help="Print a block of plain text, for a mail or login message."),
    click.Option(
        ["--server"],
        metavar="URL",
        envvar="IOWEATHER_SERVER",
        help="Ask this server about one of your jobs instead of reading a lake.",
    ),
    click.Option(
        ["--token-file"],
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="File with your token for the server (default: ~/.config/ioweather/token).",
    ),
)


def _why(
    job: str,
    others: tuple[str, ...],
    cluster: str | None,
    as_json: bool,
    line: bool,
    block: bool,
    server: str,
    token_file: Path | None,
) -> None:
    """Print the server's verdict as one line, as a block or as JSON."""
    if others:
        known = "--line, --block, --json and --cluster"
        raise UsageError(f"--server can only be combined with {known}, not {others[0]}.")
    from ioweather.agent.delivery import ask_server  # the options are those of every `why`

    of = f"&cluster={quote(cluster, safe='')}" if cluster else ""
    text = f"/api/v1/jobs/{quote(job)}/text?form={'line' if line else 'block'}{of}"
    path = f"/api/v1/ask/why?job={quote(job)}{of}" if as_json else text
    say(*many_lines(ask_server(server, token_file, path)).split("\n"))


why = click.Command(
    "why",
    callback=_why,
    params=[
        click.Argument(["job"]),
        click.Argument(["others"], nargs=-1, type=click.UNPROCESSED),
        click.Option(["--cluster"]),
        click.Option(["--json", "as_json"], is_flag=True),
        *SERVER_OPTIONS,
    ],
    context_settings={"ignore_unknown_options": True},
)
