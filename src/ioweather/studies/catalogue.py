"""Every study, by name: one line adds one. `EXHIBITS` follows from it."""

from __future__ import annotations

from ioweather.core.contracts import Study
from ioweather.core.registry import Catalogue

STUDIES: Catalogue[Study] = Catalogue(
    "study",
    {
        "climate": "ioweather.studies.climate:STUDY",
        "utilisation": "ioweather.studies.utilisation:STUDY",
    },
)
