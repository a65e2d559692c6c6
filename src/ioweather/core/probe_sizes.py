"""Sizes by which rows of one instrument are told from another's."""

from __future__ import annotations

from typing import Final

# Of the probe of every target: whole pages, for O_DIRECT, and no power of two, which samplers take.
TARGET_PROBE_BYTES: Final = 61_440
