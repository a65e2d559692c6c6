"""A Dask cluster as an Executor: one that runs already, or workers that this process starts as Slurm jobs.

Dask runs the tasks of a lost worker again on another one. Its warnings are not shown on the terminal.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioweather._version import __version__
from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.logs import Progress, silent
from ioweather.core.safe_files import PrivateDirectory, default_spool_dir

if TYPE_CHECKING:
    from distributed import Client
    from distributed import Future as RemoteFuture
    from distributed.security import Security

_CONNECT_SECONDS = 10
_JOB_NAME = "ioweather"
# Workers leave before Slurm ends them, after the task at hand and not all at once.
_LIFETIME_SHARE, _STAGGER_SHARE = 0.85, 0.1
_LOOK_SECONDS = 0.5
# The number of workers is asked for over the network.
_COUNT_SECONDS = 2.0
# Workers that were killed come back within seconds, if anybody starts them again.
_EMPTY_SECONDS = 300.0


def _require_dask(*modules: str) -> None:
    """Raise UsageError if one of these packages is not installed."""
    from importlib.util import find_spec

    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"--dask and --slurm need {', '.join(missing).replace('_', '-')}, which is not installed.",
            hint="Run: pip install 'ioweather[dask]'",
        )


@contextmanager
def connect_dask(address: str) -> Iterator[Executor]:
    """The cluster whose scheduler listens at `address` (tcp://host:port, tls://host:port, or a scheduler file)."""
    _require_dask("distributed")
    from distributed import Client

    _silence_dask()
    place = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    try:
        client = Client(**place, timeout=_CONNECT_SECONDS, set_as_default=False, name="ioweather")
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(
            f"No response from a Dask scheduler at {address} ({reason}).",
            hint="Start `dask scheduler` and `dask worker ADDRESS`, and use an address such as tcp://host:8786.",
        ) from None
    try:
        yield _DaskExecutor(client)
    finally:
        with suppress(Exception):  # errors of a closing connection have no consequence
            client.close(timeout=5)


@contextmanager
def start_slurm_cluster(jobs: int, settings: Mapping[str, Any], progress: Progress = silent) -> Iterator[Executor]:
    """A cluster of `jobs` Slurm jobs, cancelled at the end; work begins with the first of them. The settings are those
    of `cluster_settings`.

    Scheduler and workers use TLS with keys made for this run: other clients are refused.
    """
    _require_dask("distributed", "dask_jobqueue", "cryptography")
    if shutil.which("sbatch") is None:
        raise UsageError("--slurm needs `sbatch`, which was not found.", hint="Run this on a submit host.")
    from dask_jobqueue import SLURMCluster
    from distributed import Client

    _silence_dask()
    shared = default_spool_dir().with_name("slurm")
    PrivateDirectory.named(shared).close()
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=shared))
    life = _walltime_seconds(settings["walltime"])
    cluster = SLURMCluster(
        queue=settings["partition"],
        processes=settings["cores"],
        **{key: settings[key] for key in ("account", "walltime", "cores", "memory", "interface")},
        security=_make_keys(folder),
        log_directory=str(folder),
        scheduler_options={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        job_script_prologue=settings["setup"],
        job_extra_directives=settings["directives"],
        worker_extra_args=[
            "--no-dashboard",
            "--dashboard-address=127.0.0.1:0",
            f"--lifetime={round(life * _LIFETIME_SHARE)}s",
            f"--lifetime-stagger={round(life * _STAGGER_SHARE)}s",
        ],
        job_name=_JOB_NAME,
        python=sys.executable,
        silence_logs=logging.CRITICAL,
    )
    executor = None
    try:
        # Let Slurm check the job before it is submitted: a wrong partition or account is reported at once.
        script = cluster.job_script()
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
            file.write(script)
            file.flush()
            tried = subprocess.run(["sbatch", "--test-only", file.name], capture_output=True, text=True, check=False)
        if tried.returncode:
            said = tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"]
            reason = said[-1].removeprefix("allocation failure: ")
            raise UsageError(f"Slurm rejected the job: {reason}.", hint="Check [engine] in facility.toml.")
        # Fixed by minimum and maximum; "adapt" in place of "scale" because it replaces jobs that are lost.
        cluster.adapt(minimum_jobs=jobs, maximum_jobs=jobs)
        executor = _DaskExecutor(Client(cluster, set_as_default=False, name="ioweather"), jobs * settings["cores"])
        progress(0, None, "waiting for a Slurm job to start")
        while not executor.threads:
            command = ["squeue", "-h", "--me", "-n", _JOB_NAME, "-t", "PD", "-o", "%r"]
            asked = subprocess.run(command, capture_output=True, text=True, check=False)
            reason = (asked.stdout.split() or ["None"])[0]
            progress(0, None, "waiting for a Slurm job to start" + (f" ({reason})" if reason != "None" else ""))
            time.sleep(_LOOK_SECONDS)
        yield executor
    finally:
        with suppress(Exception):  # errors of a closing connection have no consequence
            if executor is not None:
                executor.client.close(timeout=5)
            cluster.close(timeout=10)
        for key in folder.glob("*.pem"):
            key.unlink(missing_ok=True)
        if executor is None or not executor.lost_task:  # else the logs of the workers stay
            shutil.rmtree(folder, ignore_errors=True)


def _walltime_seconds(walltime: str) -> int:
    """Seconds of a walltime `[D-]H:M[:S]`, in which the hours are always there."""
    days, _, clock = walltime.rpartition("-")
    hours, minutes, seconds = (*map(int, clock.split(":")), 0)[:3]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def _make_keys(folder: Path) -> Security:
    """A certificate of this run, in files that only this user can read."""
    from distributed.security import Security

    made = Security.temporary().get_tls_config_for_role("worker")
    files = {}
    for part in ("ca_file", "cert", "key"):
        files[part] = str(folder / f"{part}.pem")
        Path(files[part]).touch(mode=0o600, exist_ok=False)
        Path(files[part]).write_text(made[part], encoding="ascii")
    ours = {f"tls_{role}_{part}": files[part] for role in ("client", "scheduler", "worker") for part in ("cert", "key")}
    return Security(tls_ca_file=files["ca_file"], require_encryption=True, **ours)


class _DaskExecutor(Executor):
    """An executor whose tasks run on the cluster, one at a time (a task is a batch already)."""

    def __init__(self, client: Client, planned: int = 0) -> None:
        """`planned`: number of workers that were requested."""
        self.client = client
        self.lost_task = False
        self._planned = planned
        self._known, self._counted = 1, -1e9
        self._worked = time.monotonic()  # when there was a worker last

    @property
    def threads(self) -> int:
        """Tasks that the workers of this moment can run at once."""
        return sum(self.client.nthreads().values())

    @property
    def workers(self) -> int:
        """Number of workers, at least those that were requested: work is ready for each that starts."""
        now = time.monotonic()
        if now - self._counted > _COUNT_SECONDS:
            try:
                self._known = max(self.threads, self._planned)
            except OSError:
                raise _scheduler_lost() from None
            self._counted = now
            if self._known:
                self._worked = now
        if now - self._worked > _EMPTY_SECONDS:
            raise IoweatherError(
                f"The Dask cluster had no worker for {_EMPTY_SECONDS / 60:.0f} minutes.",
                hint="Start workers (`dask worker ADDRESS`) and run the same command again. It resumes.",
            )
        return max(self._known, 1)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run fn(*args, **kwargs) on a worker of the cluster."""
        # Not pure: equal calls are different tasks, and no result is cached.
        remote = self.client.submit(_run_task, __version__, fn, args, kwargs, pure=False)
        here: Future[Any] = Future()
        here.add_done_callback(lambda future: remote.cancel() if future.cancelled() else None)
        remote.add_done_callback(lambda future: self._deliver(future, here))
        return here

    def _deliver(self, remote: RemoteFuture, here: Future[Any]) -> None:
        """Pass on the result or the error of a task; runs in a thread of Dask."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        if not here.set_running_or_notify_cancel():
            return
        try:
            here.set_result(remote.result())
        except KilledWorker:
            self.lost_task = True
            here.set_exception(BrokenExecutor("the task crashed every worker that ran it"))
        except (CancelledError, CommClosedError):
            here.set_exception(_scheduler_lost())
        except ModuleNotFoundError as error:
            here.set_exception(
                IoweatherError(
                    f"A module is missing on a Dask worker: {error}.",
                    hint="Install ioweather with the same extras on all workers.",
                )
            )
        except Exception as error:
            here.set_exception(error)
        finally:
            remote.release()  # the worker may now forget it


def _run_task(version: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a task in the worker. Another version of ioweather is refused: it could read other rows."""
    if version != __version__:
        raise UsageError(
            f"A worker runs ioweather {__version__}, but this process runs {version}.",
            hint="Install the same version on all Dask workers.",
        )
    # Files are read in child processes, which multiprocessing forbids to a worker that a nanny has started.
    multiprocessing.current_process().daemon = False
    return fn(*args, **kwargs)


def _scheduler_lost() -> IoweatherError:
    return IoweatherError("Lost the connection to the Dask scheduler.", hint="Run the same command again. It resumes.")


def _silence_dask() -> None:
    """Silence Dask's warnings of lost workers and closing connections, which would break the progress bar."""
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")
    for name in ("distributed", "distributed.client", "distributed.scheduler", "distributed.worker", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
