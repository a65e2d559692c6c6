"""The source `sacct`: text or JSON, plain or gzipped, recognised by content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.frames import Frame
from ioweather.sources.plain_values import parse_json
from ioweather.sources.slurm import document, text
from ioweather.sources.slurm.rows import JobRecord, jobs_frame
from ioweather.sources.textfiles import line_blocks, plain_head, unzipped_blocks

_BATCH = 100_000
# A dump without the Cluster field, and nobody who says which it is.
UNNAMED = "cluster"


@dataclass(frozen=True)
class SacctSource:
    name: str = "sacct"
    title: str = "Slurm accounting (sacct text, any delimiter, and --json)"
    tables: tuple[str, ...] = ("jobs",)

    def detect(self, head: bytes, path: Path) -> float:
        start = plain_head(head)
        first = start.split("\n", 1)[0]
        if text.parse_header(first) is not None and "State" in first:
            return 0.95
        is_json = start.lstrip().startswith("{")
        return 0.9 if is_json and ('"Slurm"' in start[:4000] or '"slurm"' in start[:4000]) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        batch: list[JobRecord] = []
        trouble: SourceError | None = None
        try:
            for record in self._records(path, context):
                batch.append(record)
                if len(batch) >= _BATCH:
                    yield "jobs", jobs_frame(batch)
                    batch = []
        except SourceError as error:
            trouble = error
        if batch:  # what came before the trouble is good
            yield "jobs", jobs_frame(batch)
        if trouble is not None:
            raise trouble

    def _records(self, path: Path, context: ReadContext) -> Iterator[JobRecord]:
        cluster = context.cluster or UNNAMED
        with path.open("rb") as file:
            beginning = plain_head(file.read(64 << 10)).lstrip()
        if beginning.startswith("{"):
            yield from document.records(_json(path), str(path), cluster)
            return
        lines = ((block.first + n, line) for block in line_blocks(path) for n, line in enumerate(block.lines))
        yield from text.records(lines, str(path), context.zone, cluster)


def _json(path: Path) -> object:
    try:
        return parse_json(b"".join(unzipped_blocks(path)))
    except ValueError as error:
        raise CorruptInput(f"{path} is not JSON: {error}.") from None


SOURCE = SacctSource()
