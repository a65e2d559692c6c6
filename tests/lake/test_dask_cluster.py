"""A Dask cluster on loopback: the lake is that of one process, also when a worker is killed or the work is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Executor, Future
from pathlib import Path

import numpy as np
import pytest
from lmt_files import loop_hdf5, write_h5lmt

from dask_clusters import loopback_cluster
from ioweather.core.errors import IoweatherError, UsageError
from ioweather.ingestion.ingest import ingest
from ioweather.ingestion.reading import read_bounded
from ioweather.lake.lake import open_lake
from ioweather.lake.workers import Processes, in_order, open_executor, workers_of
from lake_contents import contents
from planted_logs import write_climate, write_empty

LOGS = 200


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    """Small logs, a few with content, one that is cut and one that is nothing."""
    folder = tmp_path_factory.mktemp("logs")
    for n in range(LOGS):
        write = write_climate if n % 10 == 0 else write_empty
        write(folder / f"{n:04}.darshan", job_id=n + 1)
    whole = write_climate(folder / "cut.darshan", job_id=99_999)
    whole.write_bytes(whole.read_bytes()[:500])
    (folder / "stranger.bin").write_bytes(b"\x00\x01\x02 nothing that anybody knows")
    return folder


@pytest.fixture(scope="module")
def alone(logs, tmp_path_factory) -> dict[str, tuple[int, str]]:
    lake = open_lake(tmp_path_factory.mktemp("alone") / "lake", create=True)
    report = ingest(lake, [logs], executor=Processes(1))
    assert len(report.bad) == 2
    return contents(lake)


@pytest.fixture(scope="module")
def cluster():
    with loopback_cluster() as made:
        yield made


def test_results_come_in_order_and_errors_come_out(cluster):
    with open_executor(dask=cluster.scheduler_address) as executor:
        assert workers_of(executor) == 2
        assert list(in_order(executor, pow, [(n, 2) for n in range(50)])) == [n * n for n in range(50)]
        with pytest.raises(ZeroDivisionError):
            list(in_order(executor, divmod, [(1, 0)]))


def test_the_lake_is_that_of_one_process(cluster, logs, alone, tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    seen = []
    with open_executor(dask=cluster.scheduler_address) as executor:
        report = ingest(lake, [logs], executor=executor, progress=lambda done, total, what: seen.append(done))
    assert contents(lake) == alone
    assert {outcome.path.name for outcome in report.bad} == {"cut.darshan", "stranger.bin"}
    assert seen == sorted(seen)
    assert seen[-1] == LOGS + 2


def test_a_killed_worker_costs_nothing_that_stays(cluster, logs, alone, tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    killed = []
    with open_executor(dask=cluster.scheduler_address) as executor:

        def kill_one(done: int, total: int | None, what: str) -> None:
            if not killed:
                killed.append(next(iter(executor.client.run(os.getpid, nanny=False).values())))
                os.kill(killed[0], signal.SIGKILL)

        ingest(lake, [logs], executor=executor, progress=kill_one)
    assert killed
    assert contents(lake) == alone


def test_stopped_work_leaves_nothing_running_and_goes_on_later(cluster, logs, alone, tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)

    def stop(done: int, total: int | None, what: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_executor(dask=cluster.scheduler_address) as executor:
        ingest(lake, [logs], executor=executor, progress=stop)
    assert not cluster.scheduler.tasks
    with open_executor(dask=cluster.scheduler_address) as executor:
        ingest(lake, [logs], executor=executor)
    assert contents(lake) == alone


def test_a_task_that_kills_every_worker_is_given_up():
    # A cluster of its own: Dask does not replace a worker that dies in the moment in which it came.
    with loopback_cluster() as own, open_executor(dask=own.scheduler_address) as executor:
        inputs = [(text,) for text in ("1", "__import__('time').sleep(0.5), __import__('os')._exit(9)", "3")]
        assert list(in_order(executor, eval, inputs, lost=lambda text: "lost")) == [1, "lost", 3]


def test_a_cluster_without_workers_is_named_rather_than_waited_for(monkeypatch):
    monkeypatch.setattr("ioweather.lake.workers._LOOK_SECONDS", 0.1)
    monkeypatch.setattr("ioweather.lake.dask_cluster._COUNT_SECONDS", 0.1)
    monkeypatch.setattr("ioweather.lake.dask_cluster._EMPTY_SECONDS", 0.5)
    with (
        loopback_cluster(workers=0) as empty,
        open_executor(dask=empty.scheduler_address) as executor,
        pytest.raises(IoweatherError, match="no worker for"),
    ):
        list(in_order(executor, abs, [(1,)]))


def test_a_worker_of_another_version_is_refused(cluster, monkeypatch):
    monkeypatch.setattr("ioweather.lake.dask_cluster.__version__", "0.0.1")
    with (
        open_executor(dask=cluster.scheduler_address) as executor,
        pytest.raises(UsageError, match=r"but this process runs 0\.0\.1"),
    ):
        list(in_order(executor, abs, [(1,)]))


def test_a_scheduler_that_goes_away_is_named(tmp_path):
    pytest.importorskip("distributed", reason="needs the extra `dask`")
    file = tmp_path / "scheduler.json"
    scheduler = _start("dask_scheduler", "--host=127.0.0.1", "--port=0", f"--scheduler-file={file}")
    worker = None
    try:
        while not file.exists() and scheduler.poll() is None:
            time.sleep(0.05)
        worker = _start("dask_worker", f"--scheduler-file={file}", "--nthreads=1", "--no-nanny", "--host=127.0.0.1")
        with open_executor(dask=str(file)) as executor:
            results = in_order(executor, pow, [(n, 2) for n in range(10**6)])
            next(results)
            scheduler.kill()
            with pytest.raises(IoweatherError, match="connection to the Dask scheduler"):
                list(results)
    finally:
        for process in filter(None, (scheduler, worker)):
            process.kill()
            process.wait()


def _start(module: str, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard", "--dashboard-address=127.0.0.1:0"]
    return subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_no_scheduler_is_a_usage_error(monkeypatch):
    pytest.importorskip("distributed", reason="needs the extra `dask`")
    monkeypatch.setattr("ioweather.lake.dask_cluster._CONNECT_SECONDS", 1)
    with (
        pytest.raises(UsageError, match=r"No response from a Dask scheduler at tcp://127.0.0.1:9"),
        open_executor(dask="tcp://127.0.0.1:9"),
    ):
        pass


def test_without_the_extra_the_install_line_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'ioweather\[dask\]'"), open_executor(dask="tcp://127.0.0.1:9"):
        pass


class Deadly(Executor):
    """A cluster on which every worker dies that reads one certain file."""

    def submit(self, fn, /, *args, **kwargs):
        future: Future[object] = Future()
        if fn is read_bounded and any(Path(file).name == "0007.darshan" for file, *_ in args[0]):
            future.set_exception(BrokenExecutor())
        else:
            future.set_result(fn(*args))
        return future


def test_what_the_workers_of_a_cluster_die_over_is_read_here(logs, alone, tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    report = ingest(lake, [logs], executor=Deadly())
    assert "0007.darshan" in {outcome.path.name for outcome in report.good}
    assert contents(lake) == alone


def test_limits_hold_on_workers_too(cluster, tmp_path):
    amounts = np.arange(120.0).reshape(2, 60)
    bad = write_h5lmt(tmp_path / "bad.h5lmt", amounts, amounts)
    loop_hdf5(bad)
    good = write_h5lmt(tmp_path / "good.h5lmt", amounts, amounts)
    lake = open_lake(tmp_path / "lake", create=True)
    (lake.root / "facility.toml").write_text('[ingest]\nstuck_after = "500ms"\n')
    with open_executor(dask=cluster.scheduler_address) as executor:
        report = ingest(open_lake(lake.root), [bad, good], executor=executor)
    assert [outcome.path for outcome in report.good] == [good]
    assert [outcome.status for outcome in report.bad] == ["quarantined"]
