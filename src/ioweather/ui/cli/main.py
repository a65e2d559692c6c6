"""`ioweather`: the commands, imported one by one, and how errors end them.

Exit codes: 0 done; 1 done, but something was left out (a quarantined file, an answer the data do not allow);
2 failed (a usage error, a lake that cannot be opened).
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
import threading
import traceback
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

import click

from ioweather._version import __version__
from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.logs import set_up, to_journal
from ioweather.core.units import joined, many_lines, show_times_in
from ioweather.ui.cli.screen import say

# Matrices here are small: threads of the linear algebra would only spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Commands by group, in the order of `--help`: name -> (module of ui.cli, one line for the list).
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Ask about a job": {
        "job": ("questions", "I/O of one job on one screen (log file or job id)"),
        "why": ("questions", "Was it my job or the storage system?"),
        "compare": ("questions", "Runs before and after a change: what changed, what it cost"),
        "jobs": ("questions", "List jobs: newest, slowest, largest"),
    },
    "Ask about storage": {
        "now": ("questions", "How slow is storage right now?"),
        "fs": ("live", "One file system, server or target, over time or live"),
        "health": ("questions", "Unhealthy components, since when, and who is affected"),
        "who": ("questions", "Which jobs slow others down?"),
        "events": ("questions", "Events on one time line"),
    },
    "Plan": {
        "predict": ("questions", "How long a transfer takes, and how to stripe it"),
        "forecast": ("questions", "The next two hours, and when to start"),
        "relieve": ("questions", "Which files to move off a busy OST"),
    },
    "Study a facility": {
        "show": ("study", "Tables and figures of five papers from this site's data"),
        "claims": ("questions", "Check the claims of five papers at this site"),
        "report": ("study", "Write a report for directors, operators or researchers"),
        "project": ("questions", "One project: volume, jobs, performance, findings"),
        "triage": ("questions", "Programs where a fix would help most"),
    },
    "Bring data in": {
        "ingest": ("lake_commands", "Read files, directories or servers into the lake"),
        "scan": ("lake_commands", "Count sizes, ages and owners in a directory tree"),
        "probe": ("measure", "Measure response times of a file system"),
        "agent": ("measure", "Measure continuously; export metrics"),
        "lake": ("lake_commands", "Manage the lake: show its contents, seal, back up, check, export"),
        "facility": ("lake_commands", "Write or check facility.toml"),
        "sql": ("lake_commands", "Query the lake in SQL, read-only"),
    },
    "Run and try": {
        "up": ("serve", "Measure this directory and open the dashboard"),
        "serve": ("serve", "Serve the dashboard and the API"),
        "mcp": ("serve", "Answer an AI assistant's questions"),
        "demo": ("study", "Make a small sample facility and ask it questions"),
        "simulate": ("study", "Simulate a facility with known causes"),
        "doctor": ("serve", "Check the setup: what works, what is missing, how to fix it"),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
# Names of version 0.2, with what to type instead.
OLD_NAMES = {
    "catch-up": ("ingest", "--watch", "--once"),
    "collect": ("agent", "run"),
    "exhibits": ("show",),
    "export": ("agent", "export"),
    "predictability": ("show", "predictability"),
    "runs": ("jobs",),
    "sample": ("probe", "--sizes", "paper"),
    "storage": ("fs",),
    "stripe": ("predict", "--stripe"),
    "what-if": ("who", "--without"),
}
# Their answers differ in form from that of the new command: for this release they stay questions of their own.
_OLD_QUESTIONS = ("what-if",)
# Commands and options of the last release, by their command (empty: any), and what replaces them.
_REMOVED: Final = {
    ("", "--log-json"): "Use --log-file, or the journal: journalctl -o json.",
    ("", "--slurm"): "Start workers with dask-jobqueue and use --dask ADDRESS (docs/how-to/cluster.md).",
    ("job", "--file"): "Python and SQL select files: ioweather sql \"FROM files WHERE path LIKE '%.h5'\"",
    ("relieve", "--by"): "`relieve` lists files by load. For a full OST: lfs find DIRECTORY --ost N | lfs_migrate -y",
    ("lake backup", "--verify"): "Run: ioweather lake check --lake DEST",
    ("agent run", "--annotate"): "Write events with `ioweather ingest --as events --select map.sql FILE`.",
    ("agent run", "slurm"): "`ioweather ingest --watch` reads Slurm's accounting.",
    ("probe", "--annotate"): "Write events with `ioweather ingest --as events --select map.sql FILE`.",
    ("probe", "--osts"): "On Lustre, files are spread over four OSTs.",
    ("scan", "--entries"): "Use `ioweather ingest --as scan_entries --select map.sql LIST`.",
    ("scan", "--project"): "Add a [[project]] to facility.toml: `ioweather facility check`.",
    ("now", "--watch"): "Run: watch ioweather now",
    ("fs", "--order"): "--live lists the busiest targets first; --json has all rates.",
    ("fs", "--once"): "Run: ioweather fs --live | cat",
    ("ingest", "--map"): "Save the file as mapping.toml in the lake; for CSV use --as and --select.",
    ("probe", "--paper"): "Use --file-size 200GiB --pool 200000.",
    ("show", "--ready"): "`ioweather show` lists only exhibits with data.",
    ("serve token create", "--to"): "Run: (umask 077; ioweather serve token create NAME > FILE)",
    ("report", "--anonymous"): "Share exhibits without names: ioweather show ID --out FILE",
    ("report", "--only"): "Write a single exhibit: ioweather show ID --out FILE.html",
    ("lake", "restore"): "A backup is a lake. Run: ioweather lake backup NEW --lake BACKUP",
}
_DISK_FULL: Final = ("No space left on device", "Disk quota exceeded")


class LazyGroup(click.Group):
    """Imports a command when it is run or when its help is shown; the list of `--help` needs no import."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name: of a module, or made from a question."""
        module, _ = COMMANDS.get(cmd_name, ("questions", ""))
        found: Any = import_module(f"ioweather.ui.cli.{module}")
        if module != "questions":
            command: click.Command = getattr(found, cmd_name)
            return command
        question = found.question_of(cmd_name)
        asking: click.Command | None = found.command_of(question) if question is not None else None
        return asking

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command and its arguments; old names lead to the new ones, misspelled ones to a suggestion."""
        if args[0] in OLD_NAMES:
            words = OLD_NAMES[args[0]]
            new = " ".join(words)
            say(f"ioweather: `{args[0]}` is now `{new}`; the old name will be removed in the next release.", err=True)
            if args[0] not in _OLD_QUESTIONS:
                args = [*words, *args[1:]]
        if args[:2] == ["simulate", "score"]:
            raise click.UsageError("`simulate score` is now a script in the source tree: benchmarks/score.py", ctx)
        if args[0] == "why" and _asks_server(args[1:]):
            return "why", import_module("ioweather.ui.cli.why_served").why, args[1:]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], COMMANDS, n=2)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {' or '.join(near)}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", line) for name, (_, line) in group.items()])


def _asks_server(arguments: list[str]) -> bool:
    """Whether the arguments of `why` ask a server. Help is that of all of `why`."""
    if {"-h", "--help"} & set(arguments):
        return False
    named = any(each == "--server" or each.startswith("--server=") for each in arguments)
    return named or bool(os.environ.get("IOWEATHER_SERVER"))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="Start here: ioweather demo",
)
@click.version_option(__version__, prog_name="ioweather")
@click.option("-v", "--verbose", count=True, help="Log progress to stderr (-vv for more).")
@click.option(
    "--log-file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="IOWEATHER_LOG",
    metavar="FILE",
    help="Also write events to this file (default: $IOWEATHER_LOG).",
)
def cli(verbose: int, log_file: Path | None) -> None:
    """Explain storage performance: how slow it is, why, and what to change."""
    set_up(verbose=verbose, file=log_file)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: an error becomes one line and an exit code; only that of a bug follows a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names of files need not be text, and terminals know not every letter
            stream.reconfigure(errors="backslashreplace")
    threading.excepthook = _thread_failed
    gc.set_threshold(100_000)  # a command is short, and nearly all of its objects stay in use
    code = run(arguments)
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    if not others:
        atexit._run_exitfuncs()
    elif not any(thread.daemon for thread in others):
        sys.exit(code)  # after they are done; the dashboard's may be in native code, which cannot be stopped
    # The interpreter frees every object when it ends, a tenth of the time of most commands.
    with suppress(OSError, ValueError):  # the reader went away
        sys.stdout.flush()
    os._exit(code)


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None and not isinstance(failed.exc_value, SystemExit):
        _complain(_explain(failed.exc_value))


def run(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        outcome: Any = cli.main(args=arguments, prog_name="ioweather", standalone_mode=False)
        return outcome if isinstance(outcome, int) else 0
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        _show(error)
        return 2
    except click.Abort:
        say("Stopped.", err=True)
        return 130
    except IoweatherError as error:
        _complain(error)
        return 1 if isinstance(error, DataUnavailable) else 2
    except KeyboardInterrupt:
        say("Stopped. Ingested data is kept; run the same command to continue.", err=True)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away (head, less): no complaint
        return 0
    except OSError as error:  # no permission, a disk that fails
        where = f" {error.filename}" if error.filename else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            _complain(IoweatherError(f"{error.strerror} while writing{where}."))
        else:
            _complain(IoweatherError(f"{error.filename}: {error.strerror}." if where else f"{error}."))
        return 2
    except BaseException as error:
        # A panic of Rust code is a BaseException of pyo3, which has no class to import.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        _complain(_explain(error))
        return 2
    finally:
        show_times_in(None)


def _show(error: click.ClickException) -> None:
    """Print the error as click does, with control characters escaped: messages quote arguments, such as file names."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None and error.message == context.get_help():  # a group alone: click's message is the help
        say(*error.message.splitlines(), err=True)
        return
    if context is not None:
        help_option = context.help_option_names[-1]
        say(context.get_usage(), f"Try '{context.command_path} {help_option}' for help.", "", err=True)
    say(f"Error: {joined(error.format_message())}{_hint_of_removed(error)}", err=True)


def _hint_of_removed(error: click.ClickException) -> str:
    """What replaces the command or option that the error names, if the last release had it; else empty."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path.removeprefix("ioweather").strip() if context is not None else ""
    asked = error.option_name if isinstance(error, click.NoSuchOption) else "".join(error.message.split("'")[1:2])
    hint = _REMOVED.get((path, asked)) or _REMOVED.get(("", asked))
    return f" It was removed. {hint}" if hint else ""


def _complain(error: IoweatherError) -> None:
    say(f"{'<3>' if to_journal() else ''}ioweather: {joined(str(error))}", err=True)  # <3>: an error, in the journal


def _explain(error: BaseException) -> IoweatherError:
    """The error to print for one that is not ours; prints the traceback of a bug."""
    for text in _DISK_FULL:
        if text in str(error):
            return IoweatherError(f"{text} while writing: {error}.")
    missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if missing and missing != "ioweather":
        return IoweatherError(
            f"This needs {missing}, which is not installed here.",
            hint="This is a measurement-only installation. For all features: pip install ioweather",
        )
    if isinstance(error, MemoryError):
        return IoweatherError("Not enough memory.", hint="Request less data, or use a machine with more memory.")
    say(*many_lines("".join(traceback.format_exception(error))).splitlines(), err=True)
    kind = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return IoweatherError(
        f"This is a bug in ioweather {__version__}: {kind.rstrip('.')}.",
        hint="Please report it with the lines above. Review them first: they may contain names of your files.",
    )
