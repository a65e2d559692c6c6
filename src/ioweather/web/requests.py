"""What a request says, in the types of the house: lake, period, parameters of a study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import Depends, Request

from ioweather.core.clock import parse_time_ns, zone_named
from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.facility import Facility
from ioweather.web.facilities import MAIN, Facilities
from ioweather.workflows.analyse import ALL_TIME, Period

# Names in a query that are not parameters of a study.
RESERVED: Final = frozenset({"lake", "format", "theme", "from", "to", "table", "heading"})


def facilities_of(request: Request) -> Facilities:
    found: Facilities = request.app.state.facilities
    return found


def lake_name(request: Request) -> str:
    return request.query_params.get("lake") or MAIN


def study_params(request: Request) -> dict[str, str]:
    """An empty field of a form means: choose for me."""
    return {name: value for name, value in request.query_params.items() if name not in RESERVED and value.strip()}


def period_of(query: Mapping[str, str], facility: Facility) -> Period:
    zone = zone_named(facility.zone or "UTC")
    ends = []
    for name, default in (("from", ALL_TIME[0]), ("to", ALL_TIME[1])):
        text = (query.get(name) or "").strip()
        try:
            ends.append(parse_time_ns(text, zone) if text else default)
        except (ValueError, IoweatherError) as error:
            raise UsageError(f"{name}: {error}") from None
    if ends[0] >= ends[1]:
        raise UsageError("The period ends before it begins.")
    return ends[0], ends[1]


InFacilities = Annotated[Facilities, Depends(facilities_of)]
LakeName = Annotated[str, Depends(lake_name)]
StudyParams = Annotated[dict[str, str], Depends(study_params)]
