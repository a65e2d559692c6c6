"""Options that commands share. Each decorator passes its options as one argument."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.logs import Progress, silent
from ioweather.core.safe_files import lake_place
from ioweather.core.units import one_line
from ioweather.lake.workers import open_executor

F = TypeVar("F", bound=Callable[..., Any])


def _together(options: list[Callable[[F], F]], join: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[F], F]:
    """A decorator that adds options to a command; `join` makes the command's arguments of what was typed."""

    def decorate(function: F) -> F:
        @wraps(function)
        def command(*args: Any, **typed: Any) -> Any:
            return function(*args, **join(typed))

        for option in reversed(options):
            command = option(command)
        return command  # type: ignore[return-value]

    return decorate


def lake_option(function: F) -> F:
    text = "The lake: a directory or s3://BUCKET/PREFIX (default: $IOWEATHER_LAKE, else ~/.local/share/ioweather/lake)."
    return click.option("--lake", "lake_dir", metavar="DIR", help=text, callback=_lake_directory)(function)


def _lake_directory(_context: click.Context, _option: click.Parameter, named: str | None) -> str | None:
    """The directory of the named lake, which may be in object storage."""
    return str(lake_place(named)) if named else named


def path_option(flag: str, metavar: str, text: str, name: str = "", **more: Any) -> Callable[[F], F]:
    """A file or a directory, handed on as a Path under the flag's name or `name`."""
    names = (flag, name) if name else (flag,)
    return click.option(*names, metavar=metavar, help=text, type=click.Path(path_type=Path), **more)


def paths_option(text: str) -> Callable[[F], F]:
    """What becomes of the paths that are read, handed on as `path_policy`."""
    policies = click.Choice(["keep", "hash", "drop"])
    return click.option("--paths", "path_policy", type=policies, default="keep", show_default=True, help=text)


def engine_options(default: str) -> Callable[[F], F]:
    """Where the work is done, handed on as `engine` for `working`. `default` describes it without any option."""
    workers, dask = (
        click.option("--workers", type=click.IntRange(1), metavar="N", help=f"Worker processes (default: {default})."),
        click.option("--dask", metavar="ADDRESS", help="Use the Dask cluster with this scheduler."),
    )

    def join(typed: dict[str, Any]) -> dict[str, Any]:
        return typed | {"engine": {name: typed.pop(name) for name in ("workers", "dask")}}

    return _together([workers, dask], join)


@contextmanager
def working(engine: Mapping[str, Any], *, clusters_only: bool = False) -> Iterator[tuple[Executor | None, Progress]]:
    """The executor of `engine_options`, and a progress bar on a terminal. Without such an option the executor is None,
    and the workflow chooses; with `clusters_only` also where only --workers was given."""
    is_asked = any(engine.values()) and (not clusters_only or engine["dask"])
    with progress_bar() as progress, open_executor(**engine) if is_asked else nullcontext(None) as executor:
        yield executor, progress


def output_options(function: F) -> F:
    """--json and --csv: one of them, or the terminal's own form; handed on as `form`."""
    as_json = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
    as_csv = click.option("--csv", "as_csv", is_flag=True, help="Print as CSV with unformatted values.")
    return _together([as_json, as_csv], _with_form)(function)


def _with_form(typed: dict[str, Any]) -> dict[str, Any]:
    as_json, as_csv = typed.pop("as_json"), typed.pop("as_csv")
    if as_json and as_csv:
        raise UsageError("--json and --csv cannot be used together.")
    return typed | {"form": "json" if as_json else "csv" if as_csv else "text"}


def period_options(function: F) -> F:
    """--from and --to as typed, handed on as `between`."""
    first = "Start of the period: 2026-11-15, yesterday, 7d (ago), @EPOCH."
    return _together(
        [
            click.option("--from", "from_text", metavar="TIME", help=first),
            click.option("--to", "to_text", metavar="TIME", help="End of the period."),
        ],
        lambda typed: typed | {"between": (typed.pop("from_text"), typed.pop("to_text"))},
    )(function)


def converted(parse: Callable[[str], Any], text: str | None, option: str) -> Any:
    """A typed value of an option, or None."""
    if text is None:
        return None
    try:
        return parse(text)
    except (ValueError, IoweatherError) as error:
        raise UsageError(f"{option}: {error}") from None


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield silent
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def advance(done: int, total: int | None, what: str) -> None:
            bar.update(task, completed=done, total=total, description=one_line(what))

        yield advance
