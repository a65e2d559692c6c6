"""Files of people who are believed about themselves alone."""

from __future__ import annotations

from pathlib import Path

from ioweather.core.contracts import ReadContext


def doubted_owner(path: Path, context: ReadContext) -> int | None:
    """Who owns the file, if they are believed only about their own runs."""
    if context.believed_owners is None:
        return None
    owner = path.stat().st_uid
    return None if owner in context.believed_owners else owner
