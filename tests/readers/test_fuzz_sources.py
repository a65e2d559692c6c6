"""The harness that damages files: every source has seeds that are good, and a mutation can be made again."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from fuzz_seeds import SEEDS, T0, reader_of, seeds_of
from fuzzing import absurd, put

from ioweather.core.contracts import ReadContext
from ioweather.ingestion.reading import Reading, read_batch
from ioweather.readers.reader_catalogue import SOURCES

CONTEXT = ReadContext(zone=ZoneInfo("UTC"), start_ns=T0 * 10**9, interval_ns=10**9, host="h", system="fs")


def test_every_source_is_attacked() -> None:
    """By damaged seeds, or by `check_source` in the test of its own."""
    assert set(SEEDS) - {*SOURCES} == {"darshan_text", "mapped_csv", "mapped_parquet"}
    tests = "".join(file.read_text(encoding="utf-8") for file in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name in SOURCES if name not in SEEDS and f"check_source({name.upper()}," not in tests] == []


@pytest.mark.parametrize("source", SEEDS)
def test_seeds_are_good(source: str, tmp_path: Path) -> None:
    for seed in seeds_of(source):
        path = put(tmp_path, seed, seed.data)
        (outcome,), frames = read_batch([(path, 1)], Reading(CONTEXT, select=seed.select))
        assert (outcome.status, outcome.message) == ("ok", None)
        assert outcome.source == reader_of(source)
        assert [absurd(table, frame) for (_, table), pieces in frames.items() for frame in pieces if frame.rows] == [
            None for (_, _), pieces in frames.items() for frame in pieces if frame.rows
        ]
