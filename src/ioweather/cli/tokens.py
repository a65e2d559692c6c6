"""`ioweather serve token`: who may send rows to this server, and who may ask it for their own jobs."""

from __future__ import annotations

from pathlib import Path

import click

from ioweather.cli.options import lake_option, open_lake_at, output_form, output_options
from ioweather.cli.screen import say


@click.group(epilog="Example: ioweather serve token create n1")
def token() -> None:
    """Tokens: agents of other hosts send rows with them, people ask for their own jobs."""


@token.command(epilog="Example: ioweather serve token create login --hosts 'login*'")
@click.argument("name")
@click.option("--hosts", metavar="PATTERN", help="Hosts whose rows it may bring (default: NAME alone).")
@click.option("--user", metavar="USER", help="For a person: shows this user's own jobs, and brings no rows.")
@click.option("--to", "file", type=click.Path(path_type=Path), metavar="FILE",
              help="Write the token there, for its owner alone, instead of printing it.")  # fmt: skip
@lake_option
def create(name: str, hosts: str | None, user: str | None, file: Path | None, lake_dir: str | None) -> None:
    """Make a token. It is shown once: the lake keeps only a hash of it."""
    from ioweather.core.errors import UsageError
    from ioweather.store.tokens import create_token, revoke_token

    if user is not None and hosts is not None:
        raise UsageError("--user and --hosts exclude each other.", hint="A person's token brings no rows.")
    root = open_lake_at(lake_dir, create=True).root
    text = create_token(root, name, "" if user is not None else hosts or name, user)
    if file is None:
        say(text)
        return
    import os

    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as out:
            out.write(text + "\n")
    except OSError as error:
        revoke_token(root, name)
        raise UsageError(f"{file} cannot be made: {error.strerror}.") from None
    say(f"Wrote the token {name} to {file}.")


@token.command(name="list", epilog="Example: ioweather serve token list --json")
@lake_option
@output_options
def listed(lake_dir: str | None, as_json: bool, as_csv: bool) -> None:
    """List the tokens: names, hosts or user, since when."""
    from ioweather.cli.render import print_rows
    from ioweather.core.units import format_time_ns
    from ioweather.store.tokens import list_tokens

    rows = [(t.name, t.hosts, t.user, format_time_ns(t.created_ns)) for t in list_tokens(open_lake_at(lake_dir).root)]
    print_rows(("token", "hosts", "user", "created"), rows, output_form(as_json, as_csv))


@token.command(epilog="Example: ioweather serve token revoke n1")
@click.argument("name")
@lake_option
def revoke(name: str, lake_dir: str | None) -> None:
    """Take a token back: from now on it is refused."""
    from ioweather.store.tokens import revoke_token

    revoke_token(open_lake_at(lake_dir).root, name)
    say(f"Revoked {name}.")
