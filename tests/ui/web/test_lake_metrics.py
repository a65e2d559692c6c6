"""/metrics of the server: unhealthy components."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ioweather.core.units import HOUR_NS, MINUTE_NS
from ioweather.diagnosis.health_incidents import Incident
from ioweather.diagnosis.incident_events import to_events
from ioweather.ui.web.lake_metrics import KINDS, lake_metrics
from ioweather.ui.web.served_lake import ServedLake
from planted_association import START_NS
from planted_culprit import BEGAN, MINUTES, make_culprit_lake

# The last of the rows; two incidents of one target go on, one of another was over long before.
END = START_NS + MINUTES * MINUTE_NS
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> ServedLake:
    root: Path = tmp_path_factory.mktemp("metrics") / "lake"
    lake = make_culprit_lake(root)
    incidents = [
        Incident("OST0001", "slow", END - HOUR_NS, END - 10 * MINUTE_NS, 0.97, 3.0, ("service",)),
        Incident("OST0001", "slow", END - 9 * MINUTE_NS, END, 0.85, 3.0, ("probe",)),
        Incident("OST0000", "absent", BEGAN - HOUR_NS, BEGAN - 30 * MINUTE_NS, 0.95, None, ("silence",)),
    ]
    lake.append("events", to_events(incidents, "scratch"), source="health")
    return ServedLake(root)


def samples(text: bytes) -> Samples:
    def every() -> Iterator[tuple[tuple[str, tuple[tuple[str, str], ...]], float]]:
        for family in text_string_to_metric_families(text.decode()):
            for sample in family.samples:
                yield (sample.name, tuple(sorted(sample.labels.items()))), sample.value

    found = list(every())
    assert len(dict(found)) == len(found), "no series twice"
    return dict(found)


def test_unhealthy_components_are_counted_from_zero(served: ServedLake) -> None:
    found = samples(lake_metrics(served, patience_seconds=60.0, clock=lambda: END + MINUTE_NS)())
    counted = {labels: n for (name, labels), n in found.items() if name == "ioweather_unhealthy_components"}
    home = {dict(labels)["filesystem"] for labels in counted}.pop()
    assert {dict(labels)["kind"]: n for labels, n in counted.items()} == {**dict.fromkeys(KINDS, 0), "slow": 1}
    target = (("component", "OST0001"), ("filesystem", home), ("kind", "slow"))
    assert found["ioweather_unhealthy_probability", target] == 0.97


def test_old_rows_count_zero_and_no_lake_gives_nothing(served: ServedLake, tmp_path: Path) -> None:
    found = samples(lake_metrics(served, patience_seconds=60.0, clock=lambda: END + 3 * HOUR_NS)())
    assert {value for (name, _), value in found.items() if name == "ioweather_unhealthy_components"} == {0.0}
    assert lake_metrics(ServedLake(tmp_path / "none"))() == b""
