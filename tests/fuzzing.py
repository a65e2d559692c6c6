"""Damaged files for every source, by the hundred thousand: `python tests/fuzzing.py --help`.

A mutation is made again by source, seed and index alone (and by whether the sample data is there, which adds seeds).
Each is read as ingest reads it, in a child process that is ended when it computes for more than 2 s over one, and that
can take no more than 512 MiB for it. Only those count that a source recognised and began to read. A file may be
refused with an error of ours, or give rows that can be true; anything else is a failure.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import mmap
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

from fuzz_seeds import SEEDS, T0, Seed, reader_of, seeds_of

MOST_SECONDS = 20.0  # what takes longer hangs
MOST_BYTES = 512 << 20
SAMPLE_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
# What a mutation costs differs by a factor of twenty; slow ones get fewer of a campaign.
SHARES = {"mapped_parquet": 0.2, "lmt": 0.3, "darshan": 0.8, "h5lmt": 0.6, "tts": 0.6}
_STATE = struct.Struct("<6q")  # index of the next, not recognised, refused, partial, accepted, failed
_TRIES = 40  # for each that counts


@dataclass(frozen=True)
class Failure:
    """`kind`: untyped, absurd, hang or crash. `signature` is the same for the same mistake."""

    source: str
    seed: str
    index: int
    kind: str
    signature: str
    detail: str = ""


@dataclass
class Campaign:
    """What became of the mutations of one source."""

    source: str
    index: int = 0
    unrecognised: int = 0
    refused: int = 0
    partial: int = 0
    accepted: int = 0
    failed: int = 0
    failures: list[Failure] = field(default_factory=list)

    @property
    def counted(self) -> int:
        return self.refused + self.partial + self.accepted + self.failed


# ------------------------------------------------------------------------------------------------------ one mutation


def mutation(source: str, seed: str, index: int, sample_data: Path | None) -> tuple[Seed, Any, Random]:
    """The seed, what became of it, and the generator to draw the rest from."""
    from fuzz_mutations import mutated

    rng = Random(f"{source}:{seed}:{index}")
    return *mutated(rng, seeds_of(source, sample_data)), rng


def put(folder: Path, seed: Seed, data: Any) -> Path:
    """The file or the folder, alone in its place."""
    path = folder / f"damaged{seed.suffix}"
    if isinstance(data, bytes):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path
    path = folder / "damaged.tree"
    shutil.rmtree(path, ignore_errors=True)
    for name, content in data.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def context_for(rng: Random) -> Any:
    """What a person might say beside a file."""
    from zoneinfo import ZoneInfo

    from ioweather.core.contracts import ReadContext

    return ReadContext(
        zone=ZoneInfo(rng.choice(("UTC", "UTC", "Europe/Berlin", "America/Los_Angeles")))
        if rng.random() < 0.95
        else None,
        start_ns=T0 * 10**9 if rng.random() < 0.9 else None,
        interval_ns=10**9 if rng.random() < 0.3 else None,
        host="host" if rng.random() < 0.8 else None,
        system="fs" if rng.random() < 0.5 else None,
        cluster="c1" if rng.random() < 0.5 else None,
        paths=rng.choice(("keep", "hash", "drop")),
        keep_raw=rng.random() < 0.5,
        hosts=rng.choice((None, None, None, "n*")),
    )


class Judge:
    """Reads files as ingest does and says what is wrong with the outcome."""

    def __init__(self, source: str) -> None:
        from ioweather.ingestion import reading

        self.name = reader_of(source)
        self.reading = reading
        self.error: BaseException | None = None
        refused = reading._failed_outcome

        def remembered(error: Exception, *details: Any) -> Any:
            self.error = error
            return refused(error, *details)

        reading._failed_outcome = remembered  # type: ignore[assignment]
        self.given: list[Any] = []
        given = self.given

        class Recording(reading.Cadence):  # type: ignore[name-defined,misc]
            def leave_out_long(self, frame: Any) -> Any:
                given.append(frame)
                return super().leave_out_long(frame)

        reading.Cadence = Recording  # type: ignore[misc]

    def judge(self, path: Path, select: Any, context: Any, *, chosen: bool = False) -> tuple[str, str, str]:
        """(status, signature, detail); the status is untyped, absurd, or what ingest would say.

        With `chosen` only this source is asked whether it knows the file, as under --source; else all are.
        """
        from ioweather.core.errors import SourceError

        self.error = None
        self.given.clear()
        try:
            if chosen and select is None and not self._recognises(path):
                return "unrecognised", "", ""
            name = self.name if chosen and select is None else None
            outcome, frames = self._read(path, self.reading.Reading(context, source=name, select=select))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a panic in a library written in Rust is no Exception
            return "untyped", _signature(error), "".join(traceback.format_exception(error)[-6:])
        if self.error is not None and not isinstance(self.error, SourceError):
            return "untyped", _signature(self.error), "".join(traceback.format_exception(self.error)[-6:])
        if outcome.source != self.name:
            return "unrecognised", "", ""
        for table, frame in frames:
            wrong = absurd(table, frame) or (table == "series" and too_long(frame, self.given)) or ""
            if wrong:
                return "absurd", wrong.partition(" = ")[0], wrong
        return outcome.status, outcome.reason or "", outcome.message or ""

    def _recognises(self, path: Path) -> bool:
        from ioweather.readers.reader_catalogue import SOURCES

        head = b"" if path.is_dir() else path.read_bytes()[: 64 << 10]
        return (path.is_dir() or head != b"") and SOURCES[self.name].detect(head, path) > 0

    def _read(self, path: Path, how: Any) -> tuple[Any, list[tuple[str, Any]]]:
        """As ingest does: many together where a source can, else one by one."""
        size = path.stat().st_size
        if self.name == "darshan":
            (outcome,), frames = self.reading.read_batch([(path, size)], how)
            return outcome, [(table, frame) for (_, table), pieces in frames.items() for frame in pieces]
        *items, outcome = self.reading.read_file(path, size, how)
        return outcome, [(table, frame) for _, table, frame in items]


def _signature(error: BaseException) -> str:
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "/ioweather/" in frame.filename]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].name}" if ours else "?"
    return f"{type(error).__name__} in {place}"


# ------------------------------------------------------------------------------------------------------ what is absurd

_LATEST_NS = (int(time.time()) + 86_400) * 10**9
_MOST_AMOUNT, _MOST_OF_INT64 = float(1 << 60), float(1 << 63)
_MOST_BYTES_PER_S, _MOST_OPS_PER_S, _MOST_SECONDS = 1e18, 1e15, 1e16
_DAY_NS = 86_400 * 10**9
# Of one component in a second, and of one device.
_MOST_RATES = {"bytes": (1e14, 3e12), "count": (1e11, 1e9), "seconds": (1e9, 1e7)}
# A file's own times are set by whoever owns it, in any century; the others are when something was seen.
_FREE_TIMES = {"mtime_ns", "atime_ns", "ctime_ns"}
# Maintenance is announced.
_PLANNED = {"events.start_ns", "events.end_ns", "components.valid_to_ns"}
_PLANNED_AHEAD_NS = 10 * 365 * 86_400 * 10**9
_LENGTHS = {"interval_ns", "duration_ns"}
# A sparse file ends anywhere below 2^63.
_SPARSE = {"read_extent_bytes", "write_extent_bytes", "size_at_open_bytes", "file_bytes", "largest_file_bytes", "bytes",
           "size_bytes", "total_inodes", "used_inodes"}  # fmt: skip
_FREE = {"record_id", "rank", "fastest_rank", "slowest_rank", "device", "inode", "uid", "gid", "job_id", "raw_job_id",
         "array_job_id", "het_offset", "errno", "quality", "low", "high", "age_low_days", "age_high_days"}  # fmt: skip


def absurd(table: str, frame: Any) -> str | None:
    """A value that cannot be true, as 'series.value = -1'; stated apart from the checks of the tables themselves."""
    import numpy as np

    for column in frame:
        if hasattr(frame[column], "categories"):
            try:
                "".join(frame[column].categories).encode()
            except UnicodeError as error:
                return f"{table}.{column} = {error}"
    for name, low, high in _checked_columns(table):
        values = frame.array(name)
        values = values.compressed() if isinstance(values, np.ma.MaskedArray) else values
        if len(values) and not (np.fmin.reduce(values) >= low and np.fmax.reduce(values) <= high):
            wrong = values[(values < low) | (values > high)]
            if len(wrong):  # all may be missing
                return f"{table}.{name} = {wrong[0]!r}"
    if "interval_ns" in frame and "quality" in frame:
        long = (frame.array("interval_ns") > _DAY_NS) & (frame.array("quality") == 0)
        if long.any():
            return f"{table}.quality = 0 of {frame.array('interval_ns')[long][0]!r} ns"
    if table == "job_operations":
        return _absurd_work(frame)
    return _absurd_rate(frame) if table == "series" else None


def too_long(frame: Any, given: list[Any]) -> str | None:
    """A row that lasts more than ten times the median of what its reader gave of the same metric and kind."""

    def groups(rows: Any) -> Iterator[tuple[str, str, int]]:
        kinds, metrics = rows.text("component_kind"), rows.text("metric")
        for kind, metric, length in zip(kinds.codes, metrics.codes, rows.array("interval_ns").tolist(), strict=True):
            yield kinds.categories[kind], metrics.categories[metric], length

    lengths: dict[tuple[str, str], list[int]] = {}
    for rows in given:
        for kind, metric, length in groups(rows):
            lengths.setdefault((kind, metric), []).append(length)
    usual = {name: sorted(found)[(len(found) - 1) // 2] for name, found in lengths.items()}
    for kind, metric, length in groups(frame):
        if length > max(10 * usual[kind, metric], 60 * 10**9):
            return f"series.interval_ns of {metric} = {length} where {usual[kind, metric]} is usual"
    return None


def _absurd_work(frame: Any) -> str | None:
    seconds = (frame.array("interval_ns") / 1e9).clip(1.0)
    kinds = frame.text("component_kind")
    device = [kinds.categories[code] == "device" for code in kinds.codes]
    for column in ("count", "bytes"):
        for rate, is_device in zip((frame.array(column) / seconds).tolist(), device, strict=True):
            if rate is not None and rate > _MOST_RATES[column][is_device]:
                return f"job_operations.{column} = {rate!r} a second"
    return None


@cache
def _checked_columns(table: str) -> list[tuple[str, float, float]]:
    from ioweather.core.tables import TABLES

    return [
        (column.name, *_bounds(table, column.name))
        for column in TABLES[table].columns
        if column.type in ("int64", "float64") and column.name not in _FREE
    ]


def _bounds(table: str, name: str) -> tuple[float, float]:
    if name in _FREE_TIMES:
        return -_MOST_OF_INT64, _MOST_OF_INT64
    if name in _LENGTHS:
        return 0.0, (366 if name == "interval_ns" else 36_500) * _DAY_NS
    if name.endswith("_ns"):
        return 0.0, float(_LATEST_NS + (_PLANNED_AHEAD_NS if f"{table}.{name}" in _PLANNED else 0))
    units = {"bytes_per_s": _MOST_BYTES_PER_S, "ops_per_s": _MOST_OPS_PER_S, "_seconds": _MOST_SECONDS}
    for unit, most in units.items():
        if name.endswith(unit):
            return 0.0, most
    # Amounts of a long time are judged by the second.
    return 0.0, _MOST_OF_INT64 if name in _SPARSE or table == "series" else _MOST_AMOUNT


def _absurd_rate(frame: Any) -> str | None:
    from ioweather.core.tables import METRICS

    metrics = frame.text("metric")
    seconds = frame.array("interval_ns") / 1e9
    ends = frame.array("start_ns") / 1e9 + seconds
    if (ends > _LATEST_NS / 1e9 + 86_401).any():
        return f"series.interval_ns = {seconds.max()!r} s, which leads into the future"
    kinds = frame.text("component_kind")
    for kind, name in enumerate(kinds.categories):
        for code, metric in enumerate(metrics.categories):
            chosen = (metrics.codes == code) & (kinds.codes == kind)
            values, unit = frame.array("value")[chosen], METRICS[metric].unit
            if METRICS[metric].extensive:
                values = values / seconds[chosen].clip(1.0)  # what ended in less may have begun before
                most = _MOST_RATES[unit][name == "device"]
            else:
                most = {"ratio": 1.0, "seconds": 1e9}.get(unit, _MOST_AMOUNT)
            wrong = values[values > most * (1 + 1e-9)]
            if len(wrong):
                return f"series.value of {metric} = {wrong[0]!r} a second"
    return None


# ------------------------------------------------------------------------------------------------------------ the child


def attack(
    source: str, seed: str, count: int, sample_data: Path | None, state: Any, report: Callable[[Failure], None]
) -> None:
    """Mutations from the state's index on, until so many count."""
    judge = Judge(source)
    index, *tallies = _STATE.unpack_from(state)
    places = {"unrecognised": 0, "quarantined": 1, "partial": 2, "ok": 3, "untyped": 4, "absurd": 4}
    last = index + _TRIES * count
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder = Path(name)
        for warm in seeds_of(source, sample_data):  # what is loaded once is no mutation's doing
            judge.judge(put(folder, warm, warm.data), warm.select, context_for(Random(0)))
        while sum(tallies[1:]) < count and index < last:
            _STATE.pack_into(state, 0, index, *tallies)
            status, signature, detail = _one(judge, source, seed, index, sample_data, folder)
            tallies[places[status]] += 1
            if places[status] == 4:
                report(Failure(source, seed, index, status, signature, detail))
            index += 1
    _STATE.pack_into(state, 0, index, *tallies)


def _one(
    judge: Judge, source: str, seed: str, index: int, sample_data: Path | None, folder: Path
) -> tuple[str, str, str]:
    origin, data, rng = mutation(source, seed, index, sample_data)
    if data == origin.data:
        return "unrecognised", "", ""
    path = put(folder, origin, data)
    context = context_for(rng)
    with _limits():
        return judge.judge(path, origin.select, context, chosen=index % 8 > 0)


class _limits:  # noqa: N801
    """So much processor time and memory from here on. The kernel ends a process that goes beyond its time."""

    def __enter__(self) -> None:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        self.before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MOST_BYTES, self.before[1]))
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, self.before)


def _child(source: str, seed: str, count: int, sample_data: Path | None, folder: Path) -> None:
    import warnings

    warnings.simplefilter("ignore")  # of NumPy, about what is then refused
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, all_threads=False, chain=True)
    with (
        (folder / "state").open("r+b") as file,
        mmap.mmap(file.fileno(), _STATE.size) as state,
        (folder / "failures").open("a", encoding="utf-8") as failures,
    ):

        def report(failure: Failure) -> None:
            failures.write(json.dumps(vars(failure)) + "\n")
            failures.flush()

        attack(source, seed, count, sample_data, state, report)


# ----------------------------------------------------------------------------------------------------------- the parent


def run_source(source: str, seed: str, count: int, sample_data: Path | None = None, start: int = 0) -> Campaign:
    """A child that reads; when one mutation ends it, that is noted and another child goes on behind it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "state").write_bytes(_STATE.pack(start, 0, 0, 0, 0, 0))
        (folder / "failures").touch()
        command = [
            sys.executable,
            str(Path(__file__).resolve()),
            "--child",
            name,
            "--seed",
            seed,
            "--count",
            str(count),
            source,
        ]
        command += ["--sample-data"] if sample_data is not None else []
        environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        while True:
            done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, check=False)
            if done.returncode == 0:
                break
            stack = done.stderr.decode(errors="replace")
            if done.returncode > 0:
                raise RuntimeError(f"The harness itself failed over {source}:\n{stack}")
            _note_death(folder, source, seed, -done.returncode, stack)
        index, *tallies = _STATE.unpack((folder / "state").read_bytes())
        lines = (folder / "failures").read_text(encoding="utf-8").splitlines()
        return Campaign(source, index, *tallies, [Failure(**json.loads(line)) for line in lines])


def _note_death(folder: Path, source: str, seed: str, number: int, stack: str) -> None:
    index, *tallies = _STATE.unpack((folder / "state").read_bytes())
    tallies[4] += 1
    (folder / "state").write_bytes(_STATE.pack(index + 1, *tallies))
    kind = "hang" if number == signal.SIGPROF else "crash"
    ours = [line.strip() for line in stack.splitlines() if "/ioweather/" in line]
    signature = f"{kind} in {ours[0].rpartition('/')[2] if ours else signal.Signals(number).name}"
    failure = Failure(source, seed, index, kind, signature, stack[-3000:])
    with (folder / "failures").open("a", encoding="utf-8") as file:
        file.write(json.dumps(vars(failure)) + "\n")


def share_of(source: str, total: int) -> int:
    """How many of a campaign's mutations are this source's."""
    return max(1, round(total * SHARES.get(source, 1.0) / sum(SHARES.get(name, 1.0) for name in SEEDS)))


def run_all(
    sources: Sequence[str], seed: str, total: int, sample_data: Path | None, jobs: int = 1
) -> Iterator[Campaign]:
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda source: run_source(source, seed, share_of(source, total), sample_data), sources)


# ------------------------------------------------------------------------------------------------------ for an engineer


def minimised(source: str, seed: str, index: int, sample_data: Path | None) -> tuple[bytes, str]:
    """The smallest bytes found that fail in the same way, and how (not for hangs: they end the process)."""
    origin, data, rng = mutation(source, seed, index, sample_data)
    context = context_for(rng)
    judge = Judge(source)
    with tempfile.TemporaryDirectory() as name:

        def outcome(candidate: Any) -> tuple[str, str]:
            with _limits():
                return judge.judge(put(Path(name), origin, candidate), origin.select, context)[:2]

        wanted = outcome(data)
        if not isinstance(data, bytes):
            return json.dumps({key: value.decode("latin-1") for key, value in data.items()}).encode(), str(wanted)
        size = len(data) // 2
        while size:
            at = 0
            while at < len(data):
                shorter = data[:at] + data[at + size :]
                if shorter and outcome(shorter) == wanted:
                    data = shorter
                else:
                    at += size
            size //= 2
        return data, f"{wanted} {context}"


def line_coverage(source: str, seed: str, count: int, sample_data: Path | None) -> tuple[int, int]:
    """Lines of the modules that the source is made of: how many there are, and how many the mutations reach."""
    import coverage

    code = "import sys, importlib; from ioweather.readers.reader_catalogue import SOURCES; "
    code += (
        "importlib.import_module('ioweather.ingestion.mappings')"
        if source.startswith("mapped")
        else f"SOURCES[{reader_of(source)!r}]"
    )
    code += (
        "; print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('ioweather.readers.') and m.__file__))"
    )
    files = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    measured = coverage.Coverage(data_file=None, config_file=False, source_pkgs=["ioweather.readers"])
    measured.start()
    attack(source, seed, count, sample_data, bytearray(_STATE.pack(0, 0, 0, 0, 0, 0)), lambda failure: None)
    measured.stop()
    lines = missed = 0
    for file in files:
        _, statements, _, missing, shown = measured.analysis2(file)
        lines, missed = lines + len(statements), missed + len(missing)
        print(f"{file}: {len(statements) - len(missing)} of {len(statements)}; not {shown}", file=sys.stderr)
    return lines, lines - missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", choices=[[], *SEEDS], help="all by default")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--count", type=int, default=20_000, help="mutations that count, over all sources")
    parser.add_argument("--jobs", type=int, default=1, help="sources at a time")
    parser.add_argument("--sample-data", action="store_true", help="damage also the small files of ../shared/data")
    parser.add_argument("--only", type=int, metavar="INDEX", help="one mutation of one source: minimised, and why")
    parser.add_argument("--coverage", action="store_true", help="the lines of one source that so many reach")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sample_data = SAMPLE_DATA if given.sample_data and SAMPLE_DATA.is_dir() else None
    if given.child:
        _child(given.sources[0], given.seed, given.count, sample_data, given.child)
        return 0
    if given.only is not None:
        data, how = minimised(given.sources[0], given.seed, given.only, sample_data)
        print(f"{data!r}\n{len(data)} bytes: {how}")
        return 0
    if given.coverage:
        lines, reached = line_coverage(given.sources[0], given.seed, given.count, sample_data)
        print(f"| {given.sources[0]} | {reached} of {lines} lines, {100 * reached / lines:.1f} % |")
        return 0
    print(
        "| source | counted | refused | partly read | read | not recognised | failures |\n|---|--:|--:|--:|--:|--:|--:|"
    )
    failures: list[Failure] = []
    for done in run_all(given.sources or list(SEEDS), given.seed, given.count, sample_data, given.jobs):
        failures += done.failures
        print(f"| {done.source} | {done.counted} | {done.refused} | {done.partial} | {done.accepted} | "
              f"{done.unrecognised} | {done.failed} |", flush=True)  # fmt: skip
        print("".join(distinct(done.failures)), end="", file=sys.stderr, flush=True)
    return 1 if failures else 0


def distinct(failures: Sequence[Failure]) -> Iterator[str]:
    """Each mistake once, with how often it came and how to make it again."""
    found: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        found.setdefault((failure.kind, failure.signature), []).append(failure)
    for (kind, signature), (first, *more) in found.items():
        again = f"python tests/fuzzing.py --seed {first.seed} --only {first.index} {first.source}"
        yield f"\n{1 + len(more)} x {kind}: {signature}\n  {again}\n{first.detail[-1500:]}\n"


if __name__ == "__main__":
    sys.exit(main())
