"""A Slurm of several nodes on this machine and on loopback only: munge, one controller, a daemon per node; with
accounting (slurmdbd on a MariaDB) where it is asked for.

Needs root, because daemons start jobs as their users.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from mariadb_servers import mariadb_server

PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "scancel", "squeue", "sinfo")
ACCOUNTING_PROGRAMS = ("slurmdbd", "sacct", "sacctmgr", "mariadbd")
_START_SECONDS = 30
_CONFIGURATION = """\
ClusterName=planted
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
KillWait=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
"""
# The password of AccountingStorage is the socket of munge, and slurmdbd wants its file readable by its user alone.
_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={root}/munge.socket
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
"""
_DATABASE_DAEMON = """\
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
LogFile={root}/slurmdbd.log
PidFile={root}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounting
"""


def missing(*, accounting: bool = False) -> str:
    """Why there can be no Slurm here; empty if there can."""
    search = os.environ["PATH"] + ":/usr/sbin"
    wanted = (*PROGRAMS, *(ACCOUNTING_PROGRAMS if accounting else ()))
    absent = [name for name in wanted if shutil.which(name, path=search) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    return "" if os.geteuid() == 0 else "needs root"


@contextmanager
def slurm_nodes(count: int, *, accounting: bool = False, more: str = "") -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands find the cluster; `more` are further lines of slurm.conf.
    RuntimeError, with its log, if it does not start."""
    # Not under pytest's folders: munge wants a short path that others may enter.
    root = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    root.chmod(0o755)
    (root / "state").mkdir()
    environment = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin", "SLURM_CONF": f"{root}/slurm.conf"}
    daemons: list[subprocess.Popen[bytes]] = []
    database = ExitStack()

    def start(*command: str) -> None:
        with (root / "daemons.log").open("ab") as log:
            daemons.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True))

    try:
        _configure(root, count, accounting, more)
        subprocess.run(["mungekey", "-c", "-k", str(root / "munge.key")], env=environment, check=True)
        start("munged", "-F", f"--key-file={root}/munge.key", f"--socket={root}/munge.socket",
              f"--pid-file={root}/munged.pid", f"--log-file={root}/munged.log",
              f"--seed-file={root}/munge.seed")  # fmt: skip
        _wait(lambda: (root / "munge.socket").is_socket(), root, "munged")
        if accounting:
            environment["MYSQL_UNIX_PORT"] = database.enter_context(mariadb_server())
            start("slurmdbd", "-D")
            _wait(lambda: not _ask(environment, "sacctmgr", "-n", "show", "cluster").returncode, root, "slurmdbd")
            # The controller must find itself known when it starts.
            _ask(environment, "sacctmgr", "-i", "add", "cluster", "planted")
        start("slurmctld", "-D")
        for node in range(1, count + 1):
            start("slurmd", "-D", "-N", f"n{node}")

        def idle() -> bool:
            return _ask(environment, "sinfo", "-h", "-t", "idle", "-o", "%D").stdout.split() == [str(count).encode()]

        _wait(idle, root, "slurmctld")
        yield environment
    finally:
        # What still runs would outlive its daemons.
        _ask(environment, "scancel", "--me", "--signal=KILL", "--full")
        for daemon in reversed(daemons):
            daemon.terminate()
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(10)
            daemon.kill()
        database.close()
        shutil.rmtree(root, ignore_errors=True)


def _ask(environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, env=environment, capture_output=True)


def _configure(root: Path, count: int, accounting: bool, more: str) -> None:
    controller, database, *ports = _free_ports(count + 2)
    lines = [_CONFIGURATION.format(root=root, controller=controller)]
    if accounting:
        lines.append(_ACCOUNTING.format(root=root, port=database))
        (root / "slurmdbd.conf").touch(mode=0o600)
        (root / "slurmdbd.conf").write_text(_DATABASE_DAEMON.format(root=root, port=database))
    for node, port in enumerate(ports, start=1):
        lines.append(f"NodeName=n{node} NodeAddr=127.0.0.1 NodeHostname={socket.gethostname()} Port={port} "
                     "CPUs=4 CoresPerSocket=4 RealMemory=4000\n")  # fmt: skip
    lines.append("PartitionName=work Nodes=ALL Default=YES MaxTime=60 State=UP\n")
    (root / "slurm.conf").write_text("".join([*lines, more]))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def _wait(ready, root: Path, what: str) -> None:
    end = time.monotonic() + _START_SECONDS
    while not ready():
        if time.monotonic() > end:
            logs = "".join(f.read_text(errors="replace")[-400:] for f in sorted(root.glob("*.log")))
            raise RuntimeError(f"{what} did not start: {logs}")
        time.sleep(0.1)
