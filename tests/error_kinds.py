"""Expected errors of readers, by the kind that the ledger stores."""

from __future__ import annotations

from typing import Any

import pytest

from ioweather.core.errors import SourceError


def source_error(kind: str, match: str | None = None) -> Any:
    """`pytest.raises` for a SourceError of a kind."""
    return pytest.raises(SourceError, match=match, check=lambda error: error.kind == kind)
