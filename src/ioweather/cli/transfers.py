"""`ioweather stripe` and `ioweather predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ioweather.cli.options import (
    converted,
    lake_option,
    open_lake_at,
    output_form,
    output_options,
    parse_period,
    period_options,
)
from ioweather.core.units import parse_size


def _shared(function: Any) -> Any:
    for decorate in (
        click.option("--html", "html_file", type=click.Path(path_type=Path), help="Write a page to this file."),
        click.option("--mode", type=click.Choice(["cache", "nocache"]), help="Use samples of this mode."),
        click.option("--filesystem", help="On this file system (default: the one with the most samples)."),
        period_options,
        output_options,
        lake_option,
    ):
        function = decorate(function)
    return function


def _answer(ask: Any, known: dict[str, Any], question: dict[str, Any]) -> None:
    from ioweather.cli.answers import show_answer

    lake = open_lake_at(known["lake_dir"])
    period = parse_period(known["from_text"], known["to_text"], lake.facility.zone)
    answer = ask(lake, period_ns=period, filesystem=known["filesystem"], mode=known["mode"], **question)
    show_answer(answer, output_form(known["as_json"], known["as_csv"]), known["html_file"])


@click.command(epilog="Example: ioweather stripe 64GiB --write --directory /scratch/run7")
@click.argument("size")
@_shared
@click.option("--read/--write", "reads", default=False, help="Whether the file is read or written (default: written).")
@click.option("--targets", type=click.IntRange(1), help="OSTs there are (default: what the lake knows).")
@click.option("--directory", default="DIRECTORY", help="Directory for the lfs setstripe line.")
def stripe(size: str, reads: bool, targets: int | None, directory: str, **known: Any) -> None:
    """Say over how many OSTs to stripe a file of SIZE, from sampled response times.

    SIZE may also be a Darshan log: then the largest file of that run is meant."""
    from ioweather.workflows.transfers import ask_stripe, largest_file_bytes

    op = "read" if reads else "write"
    is_log = Path(size).is_file()
    file_bytes = largest_file_bytes(Path(size), op) if is_log else converted(parse_size, size, "SIZE")
    question = {"file_bytes": file_bytes, "op": op}
    _answer(ask_stripe, known, {**question, "targets": targets, "directory": directory})


@click.command(epilog="Example: ioweather predict 1TiB --request 16MiB --width 8 --read")
@click.argument("size")
@_shared
@click.option("--read/--write", "reads", default=True, help="Whether SIZE is read or written (default: read).")
@click.option("--request", metavar="SIZE", help="Size of one request (default: SIZE over width).")
@click.option("--width", type=click.IntRange(1), default=1, show_default=True, help="Requests in flight at a time.")
def predict(size: str, reads: bool, request: str | None, width: int, **known: Any) -> None:
    """Say how long moving SIZE will take, with an interval, from sampled response times."""
    from ioweather.workflows.transfers import ask_predict

    question = {
        "total_bytes": converted(parse_size, size, "SIZE"),
        "request_bytes": converted(parse_size, request, "--request"),
        "width": width,
        "op": "read" if reads else "write",
    }
    _answer(ask_predict, known, question)
