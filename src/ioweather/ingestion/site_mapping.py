"""A site's own mapping of labelled samples, which lies in the lake: for servers that are read and servers that push."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ioweather.core.errors import LakeError, UsageError


def mapping_file(root: Path) -> Path:
    """A mapping of the site's own, for all that comes with labels."""
    return root / "mapping.toml"


def own_mapping(root: Path) -> Mapping[str, Any] | None:
    file = mapping_file(root)
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LakeError(f"{file} cannot be used: {error}.") from None
    from ioweather.readers.prometheus.mapping import mappings_of  # of no use where there is no such file

    try:
        mappings_of(document)
    except UsageError as error:
        raise LakeError(f"{file}: {error.message}", hint=error.hint) from None
    return document
