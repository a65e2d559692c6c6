"""Processor time and memory of this process with its reader processes. Importable, so that workers can run it."""

from __future__ import annotations

import os
import resource
import time
from multiprocessing import forkserver
from pathlib import Path


def stop_readers() -> None:
    """Wait for the server of reader processes to end: RUSAGE_CHILDREN then includes it and its children."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


def usage() -> tuple[int, float, float]:
    """Process id, processor seconds of the process and its workers (which end here), and peak memory of the largest in
    MiB. It sleeps, so that every worker of a cluster gets one such task."""
    stop_readers()
    time.sleep(0.2)
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    # The ru_maxrss of this process may be that of the process that started it.
    own = int(Path("/proc/self/status").read_text(encoding="ascii").split("VmHWM:")[1].split()[0])
    return os.getpid(), sum(each.ru_utime + each.ru_stime for each in spent), max(own, spent[1].ru_maxrss) / 1024
