"""Does a run's I/O time follow the system's activity (mad17)? Groups, one run, coefficients, curves."""

from __future__ import annotations

from collections.abc import Iterator

from ioweather.core.contracts import Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.results import Exhibit
from ioweather.core.words import names_of
from ioweather.studies.association.curves import BANDWIDTH, curve_exhibits
from ioweather.studies.association.data import NEEDS, PARAMS, association_data
from ioweather.studies.association.groups import SHARED_TIME, group_exhibits
from ioweather.studies.association.learning import ERROR
from ioweather.studies.association.one_run import job_exhibits
from ioweather.studies.association.tables import table_exhibits


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    found = association_data(data, facility, params)
    if found is None:
        return
    yield from job_exhibits(found)
    yield from group_exhibits(found)
    yield from table_exhibits(found)
    yield from curve_exhibits(found)


STUDY = Study(
    name="association",
    exhibits=names_of("""
        mad17.fig1 mad17.table1 mad17.table2 mad17.fig2 mad17.fig3 mad17.table3 mad17.table4 mad17.monitored
        mad17.fig6 mad17.fig7
    """),
    needs=NEEDS,
    run=run,
    params=(*PARAMS, BANDWIDTH, SHARED_TIME, ERROR),
    too_few="no interval of the period has samples of all servers that can be used, or no run has a log",
)
