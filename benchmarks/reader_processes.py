"""End the server from which processes of readers are started, so that their processor time counts as this process's."""

from __future__ import annotations

from multiprocessing import forkserver


def stop_readers() -> None:
    """Wait for the server of reader processes to end: RUSAGE_CHILDREN then includes it and its children."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
