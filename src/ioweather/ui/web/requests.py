"""What a request says, in the types of the house: period, parameters of a study."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends, Query, Request

from ioweather.core.clock import parse_moment_ns, zone_named
from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.facility import Facility
from ioweather.topics.analyse import ALL_TIME, Period

# Names in a query that are not parameters of a study.
RESERVED: Final = frozenset({"lake", "format", "theme", "from", "to", "table", "heading"})
PeriodText = tuple[str, str]
_TIME: Final = "ISO 8601, or @EPOCH; in the facility's zone where it names none."


# async: a dependency without `async` would cost a trip to a thread.
async def study_params(request: Request) -> dict[str, str]:
    """An empty field of a form means: choose for me."""
    return {name: value for name, value in request.query_params.items() if name not in RESERVED and value.strip()}


async def period_text(
    from_: Annotated[str, Query(alias="from", description=f"Only from this time on. {_TIME}", max_length=100)] = "",
    to: Annotated[str, Query(description=f"Only before this time. {_TIME}", max_length=100)] = "",
) -> PeriodText:
    return from_.strip(), to.strip()


def period_of(texts: PeriodText, facility: Facility) -> Period:
    if texts == ("", ""):
        return ALL_TIME
    zone = zone_named(facility.zone or "UTC")
    ends = []
    for name, text, default in zip(("from", "to"), texts, ALL_TIME, strict=True):
        try:
            ends.append(parse_moment_ns(text, zone) if text else default)
        except (ValueError, OverflowError, IoweatherError) as error:
            raise UsageError(f"{name}: {error}") from None
    if ends[0] >= ends[1]:
        raise UsageError("The period ends before it begins.")
    return ends[0], ends[1]


StudyParams = Annotated[dict[str, str], Depends(study_params)]
Between = Annotated[PeriodText, Depends(period_text)]
