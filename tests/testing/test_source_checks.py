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


# The others are among the slow tests.
USUAL = ("darshan",)


@pytest.mark.parametrize(
    "name", [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in OURS]
)
def test_our_own_sources(name, samples):
    foreign = [path for other in OURS if other != name for path in samples[other]]
    check_source(SOURCES[name], samples[name][:1], context=CONTEXT, foreign=foreign, scaling=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_our_own_sources_in_all_their_forms(name, samples):
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
DIFFERENCES = """value = None if last is None else int(total) - last
                if value is not None {guard}: rows.append((int(second), float(value)))
                last = int(total)"""
PLANTED = {
    "good": (GOOD, ""),
    "reset": (DIFFERENCES.format(guard=""), "column 3 restarts"),
    "reset_seen": (DIFFERENCES.format(guard="and value >= 0"), ""),
    "negative": ("rows.append((int(second), -float(total)))", "rows, sample: series"),
    "square": ("rows = [*rows, (int(second), float(total))]; sum(r[1] for r in rows)", "growth"),
    "endless": (
        "rows.append((int(second), 1.0))\n                while second[0] == '9': pass",
        "processor time",
    ),
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
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in ("good", "reset_seen", "untyped", "memory") else name
     for name in PLANTED if name not in ("square", "endless")],
)  # fmt: skip
def test_planted_mistakes_are_found(name, tmp_path, monkeypatch):
    body, expected = PLANTED[name]
    judge(name, body, expected, tmp_path, monkeypatch, scaling=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["good", "square", "endless"])
def test_work_that_grows_too_fast_is_found(name, tmp_path, monkeypatch):
    body, expected = PLANTED[name]
    judge(name, body, expected, tmp_path, monkeypatch, scaling=True)


def judge(name, body, expected, folder, monkeypatch, *, scaling):
    sample = folder / "sample"
    sample.write_text("".join(f"count {1_700_000_000 + i} {7000 * i + 5}\n" for i in range(40)))
    reader = planted(folder, monkeypatch, body, name)
    if not expected:
        check_source(reader, [sample], scaling=scaling)
        return
    with pytest.raises(ChecksFailed) as failed:
        check_source(reader, [sample], scaling=scaling)
    assert expected in str(failed.value)


def test_a_source_that_claims_everything_or_fails_to_say_is_found(tmp_path, monkeypatch):
    reader = planted(tmp_path, monkeypatch, GOOD, "claims")
    sample = tmp_path / "sample"
    sample.write_text("count 1700000000 5\n")
    for score, expected in ((0.2, "it recognises a file of another format"), (1.5, "not between 0 and 1")):
        monkeypatch.setattr(type(reader), "detect", lambda self, head, path, score=score: score)
        with pytest.raises(ChecksFailed, match=expected):
            check_source(reader, [sample])
