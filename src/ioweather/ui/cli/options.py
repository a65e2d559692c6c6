"""Options that commands share, and the helpers that go with them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.foreign_text import one_line
from ioweather.core.progress import Progress, silent
from ioweather.ui.cli.screen import FOR_SPREADSHEETS

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ioweather.lake.lake import Lake

F = TypeVar("F", bound=Callable[..., Any])


def lake_option(function: F) -> F:
    return click.option(
        "--lake", "lake_dir", metavar="DIR", help="The lake (default: $IOWEATHER_LAKE, else in your data home)."
    )(function)


def path_option(flag: str, metavar: str, text: str, name: str = "", **more: Any) -> Callable[[F], F]:
    """A file or a directory, handed on as a Path under the flag's name or `name`."""
    names = (flag, name) if name else (flag,)
    return click.option(*names, metavar=metavar, help=text, type=click.Path(path_type=Path), **more)


def paths_option(text: str) -> Callable[[F], F]:
    """What becomes of the paths that are read, handed on as `path_policy`."""
    policies = click.Choice(["keep", "hash", "drop"])
    return click.option("--paths", "path_policy", type=policies, default="keep", show_default=True, help=text)


def engine_options(default: str) -> Callable[[F], F]:
    """Where the work is done: --workers, --dask, --slurm; handed on as one `engine`, to be opened with `executor`.

    `default` says what happens without any of them."""

    def decorate(function: F) -> F:
        @wraps(function)
        def command(*args: Any, workers: int | None, dask: str | None, slurm: int | None, **kwargs: Any) -> Any:
            return function(*args, engine={"workers": workers, "dask": dask, "slurm": slurm}, **kwargs)

        options = (
            click.option(
                "--slurm",
                type=click.IntRange(1),
                metavar="N",
                help="Work in N Slurm jobs; see [engine] in facility.toml.",
            ),
            click.option("--dask", metavar="ADDRESS", help="Work on the Dask cluster with this scheduler."),
            click.option(
                "--workers", type=click.IntRange(1), metavar="N", help=f"Worker processes (default: {default})."
            ),
        )
        for option in options:
            command = option(command)
        return command  # type: ignore[return-value]

    return decorate


@contextmanager
def executor(
    engine: Mapping[str, Any], lake_dir: str | Path | None, progress: Progress, *, clusters_only: bool = False
) -> Iterator[Executor | None]:
    """What `engine_options` asked for, closed at the end. None: nothing (or only processes, where `clusters_only`), and
    the workflow does as it does by itself."""
    if not any(engine.values()) or (clusters_only and not (engine["dask"] or engine["slurm"])):
        yield None
        return
    from ioweather.lake.workers import ClusterSettings, cluster_settings, opened

    def settings() -> ClusterSettings:
        from ioweather.core.facility import load_facility
        from ioweather.core.safe_files import default_lake_dir

        root = Path(lake_dir) if lake_dir else default_lake_dir()
        return cluster_settings(load_facility(root / "facility.toml").sections.get("engine", {}))

    with opened(**engine, settings=settings, progress=progress) as found:
        yield found


def output_options(function: F) -> F:
    """--json and --csv: one of them, or the terminal's own form."""
    text = "With --csv: prefix cells that a spreadsheet would read as a formula with a quote (')."
    option = click.option(
        "--spreadsheet", is_flag=True, hidden=True, expose_value=False, callback=_for_spreadsheets, help=text
    )
    function = option(function)
    function = click.option(
        "--csv",
        "as_csv",
        is_flag=True,
        help="Print as CSV, cells as they are (for a spreadsheet: --csv --spreadsheet).",
    )(function)
    return click.option("--json", "as_json", is_flag=True, help="Print as JSON.")(function)


def _for_spreadsheets(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        context.meta[FOR_SPREADSHEETS] = True


def period_options(function: F) -> F:
    function = click.option("--to", "to_text", metavar="TIME", help="Only before this time.")(function)
    return click.option(
        "--from", "from_text", metavar="TIME", help="Only from this time on: 2026-11-15, yesterday, 7d (ago), @EPOCH."
    )(function)


def output_form(as_json: bool, as_csv: bool) -> str:
    if as_json and as_csv:
        raise UsageError("--json and --csv cannot be used together.")
    if FOR_SPREADSHEETS in click.get_current_context().meta and not as_csv:
        raise UsageError("--spreadsheet goes with --csv.")
    return "json" if as_json else "csv" if as_csv else "text"


def times_of_facility(lake_dir: str | None) -> None:
    """From now on times are printed in the zone of the facility, which `Times are in ZONE` names once."""
    from ioweather.core.clock import zone_named
    from ioweather.core.units import show_times_in
    from ioweather.topics.ask import zone_of

    with suppress(IoweatherError):  # a lake that cannot be read is said by what reads it
        show_times_in(zone_named(zone_of(lake_dir)))


def open_lake_at(lake_dir: str | None, *, create: bool = False) -> Lake:
    from ioweather.lake.lake import open_lake

    return open_lake(lake_dir, create=create)


def parse_period(from_text: str | None, to_text: str | None, zone: str | None) -> tuple[int, int]:
    from ioweather.topics.ask import period_between

    return period_between(from_text, to_text, lambda: zone or "UTC")


def parse_assignments(pairs: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE arguments of --set."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--set {pair}: expected NAME=VALUE.")
        found[name.strip()] = value.strip()
    return found


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
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def advance(done: int, total: int | None, what: str) -> None:
            bar.update(task, completed=done, total=total, description=one_line(what))

        yield advance
