"""Queries that pages and the API share: contents of the lake, runs, answers on a job, SQL of operators, sent logs."""

from __future__ import annotations

import pickle
import re
import tempfile
import threading
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request
from pydantic import BaseModel, Field

from ioweather.core.errors import CorruptInput, DataUnavailable, IoweatherError, SourceError, UsageError
from ioweather.core.papers import PAPERS, exhibit_entry, exhibits, published
from ioweather.core.results import SCHEMA_VERSION, Answer, Next, to_jsonable
from ioweather.core.tabular import plain
from ioweather.core.units import MIB, format_bytes, names_of
from ioweather.job_io.outcomes import JobOutcome
from ioweather.lake.inventory import find_overlaps, summarise_series
from ioweather.lake.lake import Lake, Snapshot
from ioweather.lake.sandbox import SqlResult, run_user_sql
from ioweather.topics.analyse import Availability, availability, catalogue_only
from ioweather.topics.source import SharedResults, ask

if TYPE_CHECKING:
    from ioweather.ui.web.visible import View

SERIES_FIELDS = names_of("filesystem component_kind source components interval_seconds first_ns end_ns rows")


@dataclass(frozen=True)
class Topic:
    """A question that a group of exhibits answers. `last` come after the others: checks of the method itself."""

    slug: str
    title: str
    lead: str
    last: tuple[str, ...] = ()


TOPICS: Final = (
    Topic("climate", "How busy, and when?", "volume, bursts, hours and days, phases, balance"),
    Topic("applications", "What do jobs do?", "interfaces, files, request sizes, projects", last=("car11.table1",)),
    Topic("responses", "How variable are response times?", "distributions, tails, slow episodes"),
    Topic("contents", "What is on disk?", "sizes, ages, growth"),
    Topic("health", "How healthy are servers and targets?", "server load, slow targets, slow episodes"),
)


def exhibits_of(topic: Topic) -> tuple[str, ...]:
    """The exhibits of a topic, in the order of their papers."""
    found = [entry.id for entry in exhibits() if entry.page == topic.slug]
    return tuple(sorted(found, key=lambda exhibit_id: exhibit_id in topic.last))


def inventory(snapshot: Snapshot) -> dict[str, Any]:
    """Tables, series, overlaps and quarantine."""
    quarantined = snapshot.query("SELECT path, reason, message FROM quarantine ORDER BY path LIMIT 500").fetchall()
    tables = snapshot.tables().items()
    return {
        "schema_version": SCHEMA_VERSION,
        "facility": snapshot.facility.name,
        "simulated": snapshot.facility.simulated,
        "tables": {name: {"rows": rows, "version": snapshot.versions.get(name)} for name, rows in tables},
        "series": [dict(zip(SERIES_FIELDS, row, strict=True)) for row in summarise_series(snapshot.series())],
        "overlaps": find_overlaps(snapshot.series(), snapshot.facility),
        "quarantine": [dict(zip(("path", "reason", "message"), row, strict=True)) for row in quarantined],
    }


def listed_exhibits(lake: Lake) -> list[dict[str, Any]]:
    """All exhibits as JSON data: what they show, whether this lake can make them, and the published values."""
    with lake.snapshot() as snapshot:
        found = availability(snapshot)
    return [
        {
            "id": item.id,
            "title": item.title,
            "what": exhibit_entry(item.id).what,
            "study": item.study,
            "ready": item.ready,
            "missing": list(item.missing),
            "topic": exhibit_entry(item.id).page,
            "site": PAPERS[item.id.partition(".")[0]].site,
            "published": to_jsonable(published(item.id)),
        }
        for item in found
    ]


JOB_ID: Final = r"[0-9]{1,18}([_+][0-9]{1,9})?"


def job_answers(view: View, job_id: str, cluster: str = "") -> tuple[Answer | None, Answer]:
    """The answers of `why` (None for a job of which only servers know) and `job`, cached in compressed form.

    Only ids are accepted: a path would be read from the disk of the server.
    """
    if re.fullmatch(JOB_ID, job_id) is None:
        raise UsageError(f"{job_id!r} is not a job ID.", hint="Expected a number, such as 4711 or 22_1.")

    def make() -> bytes:
        shared: SharedResults = {}  # the job is looked up once
        asked = {"job": job_id, **({"cluster": cluster} if cluster else {})}
        facts = view.ask("job", asked, shared=shared)
        has_log = not isinstance(facts.result, JobOutcome) or facts.result.logs > 0
        try:
            reason = view.ask("why", asked, shared=shared)
        except DataUnavailable:
            if has_log:
                raise
            reason = None
        return zlib.compress(pickle.dumps((reason, facts)), 1)

    made = view.served.answered(("job", view.key, job_id, cluster), make, queued=False)
    found: tuple[Answer | None, Answer] = pickle.loads(zlib.decompress(made))
    return found


def available(view: View) -> tuple[list[Availability], IoweatherError | None]:
    """The exhibits with their availability, and the error if the lake cannot be read."""

    def look() -> list[Availability]:
        with view.lake.snapshot() as snapshot:
            return availability(snapshot)

    try:
        return view.served.answered(("available", view.key), look, queued=False), None
    except IoweatherError as error:
        return catalogue_only(), error


# Limits of a query over HTTP.
SQL_LIMITS: Final[dict[str, Any]] = {
    "rows": 2000,
    "seconds": 10.0,
    "memory": "512MiB",
    "answer_bytes": 32 << 20,
    "must_confine": True,
}
_QUERIES: Final = threading.BoundedSemaphore(2)
_UPLOADS: Final = threading.BoundedSemaphore(4)
_PATIENCE_SECONDS: Final = 2.0


@contextmanager
def few_at_once(slots: threading.BoundedSemaphore = _UPLOADS, what: str = "uploads") -> Iterator[None]:
    """Limit what runs, or is in memory, at the same time."""
    if not slots.acquire(timeout=_PATIENCE_SECONDS if slots is _QUERIES else 0):
        raise IoweatherError(f"Too many {what} at once.", hint="Try again in a few seconds.", kind="Busy")
    try:
        yield
    finally:
        slots.release()


class SqlQuestion(BaseModel):
    query: str = Field(min_length=1, max_length=20_000)


def run_sql(view: View, question: SqlQuestion) -> SqlResult:
    """Run a query of an operator, bounded in rows, time and memory; few run at once."""
    with few_at_once(_QUERIES, "queries"), view.lake.snapshot() as snapshot:
        found = run_user_sql(snapshot, question.query, **SQL_LIMITS)
        return replace(found, rows=tuple(tuple(map(plain, row)) for row in found.rows))


LIMIT_BYTES: Final = 64 * MIB


async def body_parts(request: Request, limit_bytes: int, what: str) -> AsyncIterator[bytes]:
    """The body of a request in parts; raises UsageError beyond the limit."""
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit_bytes:
            raise UsageError(f"The {what} is larger than {format_bytes(limit_bytes)}.")
        yield part


async def received(request: Request) -> bytes:
    """The body of an upload, within the size limit."""
    # A form of another site cannot send this type without a preflight request, which is not answered.
    if not request.headers.get("content-type", "").startswith("application/octet-stream"):
        raise UsageError("Send the log as application/octet-stream.")
    data = b"".join([part async for part in body_parts(request, LIMIT_BYTES, "file")])
    if not data:
        raise SourceError("The file is empty.", kind="EmptyInput")
    return data


def answers_for_log(data: bytes, view: View) -> tuple[Answer, Answer]:
    """The answers of `why` and `job` for a log, compared with runs that the user may see."""
    with tempfile.TemporaryDirectory(prefix="ioweather-upload-") as folder:
        path = Path(folder) / "upload.darshan"
        path.write_bytes(data)
        lake: Lake | None = None  # without a lake a log is answered from itself alone
        with suppress(IoweatherError):
            lake = view.lake
        try:
            shared: SharedResults = {}  # the log is read once
            why, job = (_of_upload(ask(name, lake, {"job": str(path)}, shared=shared)) for name in ("why", "job"))
            return why, job
        except IoweatherError as error:
            text = error.message.replace(str(path), "the file")
            raise error.reworded(text, hint=error.hint.replace(str(path), "the file")) from None
        except Exception as error:  # whatever a hostile file makes of the reader
            raise CorruptInput("The file is not a readable Darshan log.") from error


def _of_upload(answer: Answer) -> Answer:
    """The answer without what names the temporary file: the next command, and the parameter."""
    blocks = tuple(block for block in answer.blocks if not isinstance(block, Next))
    params = {name: value for name, value in answer.provenance.params.items() if name != "job"}
    return replace(answer, blocks=blocks, provenance=replace(answer.provenance, params=params))
