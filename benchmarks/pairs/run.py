"""Run the pairs on a mounted file system, and write a Darshan log of each program before and after its change.

    python benchmarks/pairs/run.py TO [--disk FOLDER] [--repeats N] [NAME ...]

Needs gcc; programs of MPI-IO need mpich and mpi4py (PyPI) in the same environment. Files of the programs are in a
folder of their own there, and are deleted afterwards.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from programs import PROGRAMS, Program, prepare  # noqa: E402
from recording import build, parse, parse_mpi, write  # noqa: E402

PHASES = ("before", "after")


def mount_of(folder: Path) -> tuple[str, str]:
    """Return the mount point that holds a folder, and the type of its file system."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    holding = [(place, kind) for _, place, kind, *_ in mounts if folder.resolve().is_relative_to(place)]
    return max(holding, key=lambda mount: len(mount[0]))


def recorded(program: Program, phase: str, recorder: Path, disk: Path, log: Path) -> Path:
    """The program in this phase, each process by itself, and its log."""
    with tempfile.TemporaryDirectory(dir=disk) as name, tempfile.TemporaryDirectory() as kept:
        folder = Path(name)
        prepare(program, folder)
        start_ns, begun = time.time_ns(), time.monotonic()
        running = []
        if program.mpi:
            environment = os.environ | {"RECORD_ROOT": str(folder), "RECORD_FOLDER": kept, "PYTHONNOUSERSITE": "1"}
            words = [program.name, phase, "0", str(program.processes), str(folder)]
            mpiexec = [Path(sys.executable).with_name("mpiexec"), "-n", str(program.processes)]
            command = [*mpiexec, "-genv", "LD_PRELOAD", recorder, sys.executable, "-I", HERE / "programs.py", *words]
            running.append(subprocess.Popen(command, env=environment))
        for rank in range(0 if program.mpi else program.processes):
            to = Path(kept) / str(rank)
            environment = os.environ | {
                "LD_PRELOAD": str(recorder), "RECORD_ROOT": str(folder), "RECORD_TO": str(to), "PYTHONNOUSERSITE": "1",
            }  # fmt: skip
            words = [program.name, phase, str(rank), str(program.processes), str(folder)]
            command = [sys.executable, "-I", str(HERE / "programs.py"), *words]
            running.append(subprocess.Popen(command, env=environment))
        failed = [process.wait() for process in running if process.wait()]
        if failed:
            raise RuntimeError(f"{program.name} {phase} ended with {failed}")
        seconds = time.monotonic() - begun
        processes = [parse((Path(kept) / str(rank)).read_bytes()) for rank in range(program.processes)]
        calls = [parse_mpi(Path(kept) / f"{rank}.mpi") for rank in range(program.processes if program.mpi else 0)]
        return write(log, f"{program.name}/{phase}", processes, start_ns, seconds, mount_of(disk), calls)


def run(to: Path, disk: Path, repeats: int, names: list[str]) -> None:
    if shutil.which("gcc") is None:
        sys.exit("gcc is needed to build the recorder")
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        recorder = build(Path(folder))
        for program in PROGRAMS:
            if names and program.name not in names:
                continue
            for number in range(repeats):
                for phase in PHASES:
                    recorded(program, phase, recorder, disk, to / f"{program.name}.{number}.{phase}.darshan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("to", type=Path)
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    run(options.to, options.disk, options.repeats, options.names)


if __name__ == "__main__":
    main()
