"""Types of the public interface. Made by docs/generate.py from the questions: do not edit."""

import os
from collections.abc import Sequence
from typing import Literal

from ioweather._version import __version__ as __version__
from ioweather.core.results import Answer
from ioweather.lake.lake import Lake
from ioweather.lake.lake import open_lake as open_lake
from ioweather.readers.darshan.darshan_reader import read_darshan as read_darshan
from ioweather.stats.mixture import fit_mixture as fit_mixture
from ioweather.ui.python_api import exhibits as exhibits
from ioweather.ui.python_api import ingest as ingest
from ioweather.ui.python_api import show as show
from ioweather.ui.python_api import simulate_facility as simulate_facility
from ioweather.ui.python_api import sql as sql
from ioweather.ui.python_api import write_report as write_report

def claims(
    *,
    paper: Literal["car11", "don15", "kun19", "mad17", "pat19"] | None = ...,
    against: Sequence[str | os.PathLike[str]] = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
    start: str | int | None = ...,
    end: str | int | None = ...,
) -> Answer: ...
def compare(
    *runs: str | os.PathLike[str],
    processes_per_node: int | None = ...,
    paths: Literal["keep", "hash", "drop"] = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
) -> Answer: ...
def events(
    *,
    kind: Literal["annotation", "component_health", "episode", "gap", "incident", "maintenance", "phase"] | None = ...,
    strongest: bool = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
    start: str | int | None = ...,
    end: str | int | None = ...,
) -> Answer: ...
def forecast(
    *,
    filesystem: str | None = ...,
    of: Literal["load", "slowdown"] | None = ...,
    op: str | None = ...,
    horizon: str | int | None = ...,
    window: str | int = ...,
    at: str | int | None = ...,
    duration: str | int = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
) -> Answer: ...
def health(
    *,
    filesystem: str | None = ...,
    component: str | None = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
    start: str | int | None = ...,
    end: str | int | None = ...,
) -> Answer: ...
def job(
    job: str | int | os.PathLike[str],
    *,
    processes_per_node: int | None = ...,
    paths: Literal["keep", "hash", "drop"] = ...,
    uid: int | None = ...,
    cluster: str | None = ...,
    detail: bool = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
    start: str | int | None = ...,
    end: str | int | None = ...,
) -> Answer: ...
def now(
    *,
    spool: Sequence[str | os.PathLike[str]] = ...,
    at: str | int | None = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
) -> Answer: ...
def predict(
    size: str | int | os.PathLike[str],
    *,
    filesystem: str | None = ...,
    mode: Literal["cache", "nocache"] | None = ...,
    op: Literal["read", "write"] | None = ...,
    request: str | int | None = ...,
    width: int = ...,
    stripe: bool = ...,
    targets: int | None = ...,
    directory: str = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
    start: str | int | None = ...,
    end: str | int | None = ...,
) -> Answer: ...
def project(
    name: str | int | os.PathLike[str],
    *,
    processes_per_node: int | None = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
    start: str | int | None = ...,
    end: str | int | None = ...,
) -> Answer: ...
def relieve(
    target: str | int | os.PathLike[str] | None = ...,
    *,
    filesystem: str | None = ...,
    most: int = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
    start: str | int | None = ...,
    end: str | int | None = ...,
) -> Answer: ...
def runs(
    *,
    words: str | None = ...,
    user: str | None = ...,
    project: str | None = ...,
    program: str | None = ...,
    cluster: str | None = ...,
    filesystem: str | None = ...,
    order: Literal["newest", "slowest", "extra", "largest", "longest"] = ...,
    without_log: bool = ...,
    every_run: bool = ...,
    most: int = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
    start: str | int | None = ...,
    end: str | int | None = ...,
) -> Answer: ...
def storage(
    where: str | int | os.PathLike[str] | None = ...,
    *,
    lake: Lake | str | os.PathLike[str] | None = ...,
    start: str | int | None = ...,
    end: str | int | None = ...,
) -> Answer: ...
def triage(
    *,
    since: str | int = ...,
    most: int = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
    start: str | int | None = ...,
    end: str | int | None = ...,
) -> Answer: ...
def what_if(
    *,
    without: int | None = ...,
    filesystem: str | None = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
    start: str | int | None = ...,
    end: str | int | None = ...,
) -> Answer: ...
def who(
    job: str | int | os.PathLike[str] | None = ...,
    *,
    without: int | None = ...,
    at: str | int | None = ...,
    window: str | int = ...,
    filesystem: str | None = ...,
    by: Literal["job", "user", "project", "program"] = ...,
    top: int = ...,
    uid: int | None = ...,
    cluster: str | None = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
    start: str | int | None = ...,
    end: str | int | None = ...,
) -> Answer: ...
def why(
    job: str | int | os.PathLike[str],
    *,
    filesystem: str | None = ...,
    as_of: str | int | None = ...,
    uid: int | None = ...,
    cluster: str | None = ...,
    lake: Lake | str | os.PathLike[str] | None = ...,
    start: str | int | None = ...,
    end: str | int | None = ...,
) -> Answer: ...
