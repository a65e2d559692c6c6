"""`relieve` on a planted file system: lists by lfs find, samples of fill and load, logs of runs, and who sees what."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from ioweather.core.contracts import PathPolicy, ReadContext
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Owner
from ioweather.core.tables import TABLES
from ioweather.core.units import MINUTE_NS, NS
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import Lake, open_lake
from ioweather.planning.relieve import RelieveOutcome, shell_word
from ioweather.topics.source import ask

START_NS = 1_772_409_600 * NS  # 2026-03-02
GB = 10**9
USED = (900, 400, 500, 200)  # of 1,000 GB each: the mean is half
ANNA, BEN = 1001, 1002
# Size in GB, owner, stripes as lfs find prints them, path.
FILES = [
    (300, ANNA, "[0]", "/scratch/anna/large"),
    (160, BEN, "[0,1]", "/scratch/ben/two stripes"),
    (90, BEN, "[0]", "/scratch/ben/it's"),
    (25, ANNA, "[0]", "/scratch/anna/small"),
    (500, ANNA, "[3]", "/scratch/anna/elsewhere"),
    (1, BEN, "[?]", "/scratch/ben/new"),
    (20, BEN, "[16]", "/scratch/ben/on 16"),
]


def samples(lake: Lake, metric: str, values: tuple[int, ...]) -> None:
    lake.append("series", TABLES["series"].frame({
        "component": [f"scratch-OST{i:04x}" for i in range(len(values))], "value": [float(v) * GB for v in values],
    }, rows=len(values), start_ns=START_NS, interval_ns=MINUTE_NS, system="scratch", component_kind="ost",
        metric=metric, quality=0), source="lustre")  # fmt: skip


def listed(folder: Path, lake: Lake, *, keep: PathPolicy = "keep") -> None:
    lines = [
        f"{size * GB} {size * GB // 512} 1770000000 1771000000 1770000000 {uid} 100 1 {osts} {path}\n"
        for size, uid, osts, path in FILES
    ]
    (folder / "list.txt").write_text("".join(lines))
    context = ReadContext(start_ns=START_NS, system="scratch", keep_raw=True, paths=keep)
    assert ingest(lake, [folder / "list.txt"], context=context).rows_added["scan_entries"] == len(FILES)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = open_lake(tmp_path / "lake", create=True)
    samples(lake, "capacity_bytes", (1000,) * 4)
    samples(lake, "free_bytes", tuple(1000 - used for used in USED))
    listed(tmp_path, lake)
    return lake


def relieve(lake: Lake, target: str | None = None, **params: str) -> RelieveOutcome:
    found = ask("relieve", lake, {"target": target, "by": "space", **params}).result
    assert isinstance(found, RelieveOutcome)
    return found


def test_the_fewest_files_that_bring_the_fullest_to_the_mean(lake: Lake) -> None:
    found = relieve(lake)
    assert (found.target, found.level, found.mean_level) == ("scratch-OST0000", pytest.approx(0.9), pytest.approx(0.5))
    assert found.excess_bytes == pytest.approx(400 * GB)
    # 300 + 90 + 80 of two stripes would do; three are needed, and of the last one the smallest that is enough.
    assert [file.path for file in found.files] == ["/scratch/anna/large", "/scratch/ben/it's", "/scratch/anna/small"]
    assert found.is_enough
    assert found.moved_bytes == pytest.approx(415 * GB, rel=1e-6)
    assert [file.uid for file in found.files] == [ANNA, BEN, ANNA]
    assert found.files[0].last_used_ns == 1_771_000_000 * NS


def test_commands_name_the_emptiest_and_survive_a_shell(lake: Lake) -> None:
    found = relieve(lake)
    words = [shlex.split(file.command or "") for file in found.files]
    assert [word[:5] for word in words] == [["lfs", "migrate", "-n", "-o", number] for number in ("3", "1", "1")]
    assert [word[5] for word in words] == [file.path for file in found.files]


@pytest.mark.parametrize(
    "path", ["/a b", "/it's", "/new\nline", "/esc\x1b[31m", "-rf", "/back\\slash", "/tab\tand'quote", "/$(id)`id`"]
)
def test_any_path_is_one_word_of_a_shell(path: str) -> None:
    word = shell_word(path, escaped=False)
    assert word.isprintable()
    said = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, text=True, check=True).stdout
    assert said.removeprefix("./") == path


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    from ioweather.readers.scan.tally import stored_text

    text, escaped = stored_text(b"/odd\xff\\'x".decode("utf-8", "surrogateescape"))
    word = shell_word(text, escaped=escaped)
    said = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout
    assert said == b"/odd\xff\\'x"


def test_people_see_their_own_files_alone(lake: Lake) -> None:
    found = relieve(lake.seen_by(Owner("ben", (BEN,))))
    assert {file.uid for file in found.files} == {BEN}
    assert found.excess_bytes == pytest.approx(400 * GB), "how full it is, all may see"
    assert not found.is_enough
    assert relieve(lake.seen_by(Owner("carl", (1003,)))).files == ()


def test_without_samples_the_list_says_how_full_targets_are(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake", create=True)
    listed(tmp_path, lake)
    found = relieve(lake, filesystem="scratch")
    assert found.target == "scratch-OST0003"
    assert found.level == pytest.approx(500 * GB, rel=1e-6)
    assert [file.path for file in found.files] == ["/scratch/anna/elsewhere"]
    with pytest.raises(DataUnavailable, match="no capacity samples"):
        relieve(lake.seen_by(Owner("ben", (BEN,))), filesystem="scratch")


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
    found = relieve(lake, by="load")
    assert (found.target, found.level, found.mean_level) == ("scratch-OST0000", 100 * GB, 40 * GB)
    assert [(file.path, file.bytes_there) for file in found.files] == [("/s/shared", 30 * GB), ("/s/wide", 20 * GB)]
    assert not found.is_enough
    assert found.files[0].command is not None
    assert found.files[1].command is None, "it uses all targets"
    assert relieve(lake.seen_by(Owner("ben", (BEN,))), by="load").files == (), "of one run that ben may see"
