"""Where things lie by default: the lake in the data home, the spool in the state home. Nothing is made here."""

from __future__ import annotations

import os
from pathlib import Path


def default_lake_dir() -> Path:
    """IOWEATHER_LAKE, else under XDG data home."""
    if named := os.environ.get("IOWEATHER_LAKE"):
        return Path(named)
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "ioweather" / "lake"


def default_spool_dir() -> Path:
    """IOWEATHER_SPOOL, else what systemd made for the service, else under XDG state home."""
    if named := os.environ.get("IOWEATHER_SPOOL"):
        return Path(named)
    if made := os.environ.get("STATE_DIRECTORY"):  # systemd.exec(5): several are joined by colons
        return Path(made.split(":")[0]) / "spool"
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "ioweather" / "spool"


def errors_dir() -> Path:
    """What to send when ioweather itself has failed: under XDG state home."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "ioweather" / "errors"
