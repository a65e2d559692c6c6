"""`check_source` over our own catalogue, and over readers with mistakes planted in them."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from fuzz_seeds import SEEDS, T0, seeds_of
from fuzzing import put

from ioweather.core.contracts import ReadContext
from ioweather.readers.reader_catalogue import SOURCES
from ioweather.testing import ChecksFailed, check_source

OURS = [name for name in SEEDS if name in SOURCES]  # test_fuzz_sources sees to it that none is forgotten
CONTEXT = ReadContext(
    zone=ZoneInfo("UTC"), start_ns=T0 * 10**9, interval_ns=10**9, host="host", system="fs", cluster="c1"
)


@pytest.fixture(scope="session")
def samples(tmp_path_factory) -> dict[str, list[Path]]:
    """The good files of each source."""
    folder = tmp_path_factory.mktemp("samples")
    found: dict[str, list[Path]] = {}
    for name in OURS:
        for number, seed in enumerate(seeds_of(name)):
            place = folder / name / str(number)
            place.mkdir(parents=True)
            found.setdefault(name, []).append(put(place, seed, seed.data))
    return found


@pytest.mark.parametrize(
    "name", ["darshan", *(pytest.param(n, marks=pytest.mark.slow) for n in OURS if n != "darshan")]
)
def test_our_own_sources(name, samples):
    check_source(SOURCES[name], samples[name], context=CONTEXT)


READER = """
from ioweather.core.errors import CorruptInput
from ioweather.core.tables import TABLES

class Reader:
    name, title, tables = "counts", "Counts per second", ("series",)

    def detect(self, head, path):
        return 0.9 if head.startswith(b"count ") else 0.0

    def read(self, path, context):
        rows, last = [], None
        try:
            for line in path.read_text().splitlines():
                word, second, total = line.split()
                if word != "count" or not (second + total).isascii() or not (second + total).isdigit():
                    raise ValueError("no count")
                if len(second) > 10 or len(total) > 15:
                    raise ValueError("too large")
                {body}
        except ValueError as error:
            raise CorruptInput(f"{{path}}: {{error}}.") from None
        yield "series", TABLES["series"].frame({{
            "system": "fs", "component": "ost1", "component_kind": "ost", "metric": "read_bytes", "quality": 0,
            "start_ns": [r[0] * 10**9 for r in rows], "interval_ns": 10**9, "value": [r[1] for r in rows],
        }}, rows=len(rows))

READER = Reader()
"""
GOOD = "rows.append((int(second), float(total)))"
PLANTED = {
    "good": (GOOD, ""),
    "negative": ("rows.append((int(second), -float(total)))", "read, sample: 40 rows of series flagged"),
    "square": ("rows = [*rows, (int(second), float(total))]; sum(r[1] for r in rows)", "large, sample: used more"),
    "memory": (GOOD + "; self.kept = bytearray(1 << 30)", "MiB of memory"),
    "untyped": (GOOD + "; assert len(rows) < 50", "AssertionError instead of a SourceError"),
    "other_table": (GOOD + "; self.tables = ('events',)", "not in its `tables`"),
}


def planted(folder: Path, monkeypatch, body: str, name: str):
    """In a module of its own: the children that read must find it."""
    module = f"reader_{name}"
    (folder / f"{module}.py").write_text(READER.format(body=body))
    monkeypatch.syspath_prepend(str(folder))
    return __import__(module).READER


@pytest.mark.parametrize(
    "name", [n if n in ("negative", "other_table") else pytest.param(n, marks=pytest.mark.slow) for n in PLANTED]
)
def test_planted_mistakes_are_found(name, tmp_path, monkeypatch):
    body, expected = PLANTED[name]
    sample = tmp_path / "sample"
    sample.write_text("".join(f"count {1_700_000_000 + i} {7000 * i + 5}\n" for i in range(40)))
    reader = planted(tmp_path, monkeypatch, body, name)
    if not expected:
        check_source(reader, [sample])
        return
    with pytest.raises(ChecksFailed) as failed:
        check_source(reader, [sample])
    assert expected in str(failed.value)


def test_a_source_that_claims_everything_or_fails_to_say_is_found(tmp_path, monkeypatch):
    reader = planted(tmp_path, monkeypatch, GOOD, "claims")
    sample = tmp_path / "sample"
    sample.write_text("count 1700000000 5\n")
    for score, expected in ((0.2, "it recognises prose"), (1.5, "at most 1")):
        monkeypatch.setattr(type(reader), "detect", lambda self, head, path, score=score: score)
        with pytest.raises(ChecksFailed, match=expected):
            check_source(reader, [sample])
