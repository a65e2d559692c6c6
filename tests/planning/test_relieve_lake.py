"""`relieve` on a planted file system: samples of load, logs of runs, and who sees what."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from ioweather.core.facility import Owner
from ioweather.core.tables import TABLES
from ioweather.core.units import MINUTE_NS, NS
from ioweather.lake.lake import Lake, open_lake
from ioweather.planning.relieve import RelieveOutcome, quote_for_shell
from ioweather.topics.source import ask

START_NS = 1_772_409_600 * NS  # 2026-03-02
GB = 10**9
ANNA, BEN = 1001, 1002


def samples(lake: Lake, metric: str, values: tuple[int, ...]) -> None:
    lake.append("series", TABLES["series"].frame({
        "component": [f"scratch-OST{i:04x}" for i in range(len(values))], "value": [float(v) * GB for v in values],
    }, rows=len(values), start_ns=START_NS, interval_ns=MINUTE_NS, system="scratch", component_kind="ost",
        metric=metric, quality=0), source="lustre")  # fmt: skip


def relieve(lake: Lake, target: str | None = None) -> RelieveOutcome:
    found = ask("relieve", lake, {"target": target}).result
    assert isinstance(found, RelieveOutcome)
    return found


@pytest.mark.parametrize(
    "path", ["/a b", "/it's", "/new\nline", "/esc\x1b[31m", "/back\\slash", "/tab\tand'quote", "/$(id)`id`"]
)
def test_any_path_is_one_word_of_a_shell(path: str) -> None:
    word = quote_for_shell(path)
    assert word.isprintable()
    said = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, text=True, check=True).stdout
    assert said == path


def run(lake: Lake, digest: str, uid: int, moved: dict[str, tuple[int, str]]) -> None:
    lake.append("applications", TABLES["applications"].frame(
        rows=1, log_digest=digest, job_id=1, uid=uid, nprocs=1, start_ns=START_NS, end_ns=START_NS + 60 * NS,
        log_version="3.41", partial_modules="", modules="POSIX"), source="darshan")  # fmt: skip
    columns = {spec.name: None if spec.nullable else 0 for spec in TABLES["files"].columns}
    for number, (path, (amount, osts)) in enumerate(moved.items()):
        row = {**columns, "log_digest": digest, "start_ns": START_NS, "record_id": number, "rank": 0, "module": "POSIX",
               "path": path, "standard_stream": False, "read_bytes": amount * GB, "osts": osts,
               "last_read_ns": START_NS + 30 * NS}  # fmt: skip
        lake.append("files", TABLES["files"].frame({k: [v] for k, v in row.items()}, rows=1), source="darshan")


def test_by_load_files_that_several_runs_used(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake", create=True)
    samples(lake, "read_bytes", (100, 20, 20, 20))
    samples(lake, "write_bytes", (0, 0, 0, 0))
    for digest, uid in (("a", ANNA), ("b", BEN)):
        run(lake, digest, uid, {"/s/shared": (15, "0"), "/s/wide": (40, "0,1,2,3"), f"/s/once.{digest}": (30, "0")})
    found = relieve(lake)
    assert (found.target, found.level, found.mean_level) == ("scratch-OST0000", 100 * GB, 40 * GB)
    assert [(file.path, file.bytes_there) for file in found.files] == [("/s/shared", 30 * GB), ("/s/wide", 20 * GB)]
    assert not found.is_enough
    words = shlex.split(found.files[0].command or "")
    assert words == ["lfs", "migrate", "-n", "-o", "1", "/s/shared"]
    assert found.files[1].command is None, "it uses all targets"
    assert relieve(lake.seen_by(Owner("ben", (BEN,)))).files == (), "of one run that ben may see"
