"""Fixtures that give tests the builder of logs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from darshan_logs import LogParts, record


@pytest.fixture(scope="session")
def log_parts() -> type[LogParts]:
    return LogParts


@pytest.fixture(scope="session")
def fixed_record() -> Callable[..., bytes]:
    return record
