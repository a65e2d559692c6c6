"""`ioweather`: the group of commands, loaded one by one, and what becomes of errors.

Exit codes: 0 done; 1 done, but something was left out (a quarantined file, an answer the data do not allow);
2 not done (a usage error, a lake that cannot be opened).
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
import threading
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

from ioweather._version import __version__
from ioweather.cli.screen import say
from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.printable import joined
from ioweather.questions.catalogue import TITLES

# Matrices here are small: threads of the linear algebra would only spin, which costs more than what they compute.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Of objects, between searches for those that nobody needs: at Python's 700, a search finds nearly all of them needed.
_MADE_BETWEEN_SEARCHES = 100_000
DEBUG = "IOWEATHER_DEBUG"  # a traceback is wanted
# name -> (module, attribute, one line for the list)
_OWN: dict[str, tuple[str, str, str]] = {
    "catch_up": ("ioweather.cli.catch_up", "catch_up", "Read what is new in watched directories; judge finished runs."),
    "collect": ("ioweather.cli.collect", "collect", "Run the agent: probe, block devices, Lustre counters, Slurm."),
    "demo": ("ioweather.cli.demo", "demo", "Make a small sample facility and show what ioweather does with it."),
    "doctor": ("ioweather.cli.doctor", "doctor", "Say what works here, what is missing, and what to do."),
    "exhibits": ("ioweather.cli.exhibits", "exhibits", "List all exhibits, and which of them this lake can make."),
    "export": ("ioweather.cli.export", "export", "Show the agent's status to Prometheus."),
    "facility": ("ioweather.cli.facility", "facility", "Name the file systems: write or check facility.toml."),
    "ingest": ("ioweather.cli.ingest", "ingest", "Read files into the lake, whatever they are."),
    "lake": ("ioweather.cli.lake", "lake", "Show what the lake holds; seal and clean it."),
    "probe": ("ioweather.cli.probe", "probe", "Measure how long small operations take on a file system, every second."),
    "report": ("ioweather.cli.report", "report", "Write a report: for the director, for operators, all exhibits."),
    "sample": ("ioweather.cli.sample", "sample", "Sample response times by request size, cached and uncached."),
    "scan": ("ioweather.cli.scan", "scan", "Walk a directory tree and count sizes, ages, owners and names."),
    "serve": ("ioweather.cli.serve", "serve", "Serve the dashboard and the API."),
    "show": ("ioweather.cli.show", "show", "Make an exhibit and show it, or write it as a figure."),
    "simulate": ("ioweather.cli.simulate", "simulate", "Make a facility whose truth is known; score the answers."),
    "sql": ("ioweather.cli.sql", "sql", "Ask the lake in SQL, read-only."),
    "up": ("ioweather.cli.up", "up", "Measure this directory's storage and show it, in one go."),
}
# Questions with a screen of their own; the command of any other follows from its line in the catalogue.
_SCREENS = {
    "claims": "ioweather.cli.claims",
    "events": "ioweather.cli.events",
    "now": "ioweather.cli.now",
    "why": "ioweather.cli.why",
}
_ASKED = {name: (_SCREENS.get(name, "ioweather.cli.questions"), name, title) for name, title in TITLES.items()}
COMMANDS = {name.replace("_", "-"): command for name, command in sorted((_OWN | _ASKED).items())}


class LazyGroup(click.Group):
    """Imports a command when it is run or asked for help, and not to be listed: `--help` must be instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        spelled = cmd_name.replace("_", "-")
        if spelled not in COMMANDS:
            return self._of_another_package(cmd_name) or self._of_another_package(cmd_name.replace("-", "_"))
        module, attribute, _ = COMMANDS[spelled]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    @staticmethod
    def _of_another_package(name: str) -> click.Command | None:
        from ioweather.questions.catalogue import QUESTIONS

        if name not in QUESTIONS:
            return None
        from ioweather.cli.questions import command_of

        return command_of(name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] == "why":
            from ioweather.cli import why_served

            if why_served.is_served(args[1:]):
                return "why", why_served.why, args[1:]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=2)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {' or '.join(near)}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="Example: ioweather demo",
)
@click.version_option(__version__, prog_name="ioweather")
@click.option("-v", "--verbose", count=True, help="Tell what happens on standard error; -vv: more.")
@click.option(
    "--log-file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="IOWEATHER_LOG",
    metavar="FILE",
    help="Also write events to this file (default: $IOWEATHER_LOG).",
)
@click.option("--log-json", is_flag=True, envvar="IOWEATHER_LOG_JSON", help="Write events as JSON, one per line.")
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error ($IOWEATHER_DEBUG=1).")
def cli(verbose: int, log_file: Path | None, log_json: bool, debug: bool) -> None:
    """The weather of your storage: how slow it is, and the climate of the facility."""
    from ioweather.core.logs import set_up

    if debug:
        os.environ[DEBUG] = "1"  # workers are to know, too
    set_up(verbose=verbose, file=log_file, as_json=log_json)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: errors of ours become one line and an exit code, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names of files need not be text, and terminals know not every letter
            stream.reconfigure(errors="backslashreplace")
    threading.excepthook = _thread_failed
    gc.set_threshold(_MADE_BETWEEN_SEARCHES)
    code = run(arguments)
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    if not others:
        atexit._run_exitfuncs()
    elif not any(thread.daemon for thread in others):
        sys.exit(code)  # after they are done; the dashboard's may be in native code, which cannot be stopped
    # An interpreter that ends takes apart every object: a tenth of the time of most commands.
    with suppress(OSError, ValueError):  # the reader went away
        sys.stdout.flush()
    os._exit(code)


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    from ioweather.cli.unexpected import explained

    if os.environ.get(DEBUG) or failed.exc_value is None:
        threading.__excepthook__(failed)
    elif not isinstance(failed.exc_value, SystemExit):
        _complain(explained(failed.exc_value))


def run(arguments: list[str] | None = None) -> int:
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
    except DataUnavailable as error:
        _complain(error)
        return 1
    except IoweatherError as error:
        _complain(error)
        return 2
    except KeyboardInterrupt:
        say("Stopped. What is in the lake stays; the same command goes on from there.", err=True)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away (head, less): no complaint
        return 0
    except OSError as error:  # no permission, a disk that fails
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            where = f" {error.filename}" if error.filename else ""
            _complain(IoweatherError(f"{error.strerror} while writing{where}."))
        else:
            _complain(IoweatherError(f"{error.filename}: {error.strerror}." if error.filename else f"{error}."))
        return 2
    except BaseException as error:
        from ioweather.cli.unexpected import explained, is_fault

        if not is_fault(error) or os.environ.get(DEBUG):
            raise
        _complain(explained(error))
        return 2


def _show(error: click.ClickException) -> None:
    """As click does; but its messages quote what was typed, which may be names that a shell found."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None and error.message == context.get_help():  # a group alone: click's message is the help
        say(*error.message.splitlines(), err=True)
        return
    if context is not None:
        help_option = context.help_option_names[-1]
        say(context.get_usage(), f"Try '{context.command_path} {help_option}' for help.", "", err=True)
    say(f"Error: {joined(error.format_message())}", err=True)


def _complain(error: IoweatherError) -> None:
    from ioweather.core.logs import to_journal

    say(f"{'<3>' if to_journal() else ''}ioweather: {joined(str(error))}", err=True)  # <3>: an error, in the journal
