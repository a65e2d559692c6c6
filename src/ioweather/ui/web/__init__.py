"""The dashboard and the HTTP API: a thin skin over workflows."""

from __future__ import annotations

from typing import Final

# The lake that the server was started for; others have names of their own.
MAIN: Final = "main"
