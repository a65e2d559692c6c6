"""/metrics of the server: unhealthy components and who uses storage, with names only where all may see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ioweather.core.tables import TABLES
from ioweather.core.units import HOUR_NS, MINUTE_NS
from ioweather.diagnosis.health_incidents import Incident, to_events
from ioweather.ui.web import MAIN
from ioweather.ui.web.facilities import Facilities
from ioweather.ui.web.lake_metrics import KINDS, LakeMetrics
from planted_association import START_NS
from planted_culprit import BEGAN, HEAVY, LIGHT, MINUTES, make_culprit_lake

# The last of the rows; two incidents of one target go on, one of another was over long before.
END = START_NS + MINUTES * MINUTE_NS
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def facilities(tmp_path_factory: pytest.TempPathFactory) -> Facilities:
    root: Path = tmp_path_factory.mktemp("metrics") / "lake"
    lake = make_culprit_lake(root)
    incidents = [
        Incident("OST0001", "slow", END - HOUR_NS, END - 10 * MINUTE_NS, 0.97, 3.0, ("service",)),
        Incident("OST0001", "slow", END - 9 * MINUTE_NS, END, 0.85, 3.0, ("probe",)),
        Incident("OST0000", "absent", BEGAN - HOUR_NS, BEGAN - 30 * MINUTE_NS, 0.95, None, ("silence",)),
    ]
    lake.append("events", to_events(incidents, "scratch"), source="health")
    work = TABLES["job_operations"].frame({
        "start_ns": [END - 20 * MINUTE_NS] * 2, "interval_ns": [MINUTE_NS] * 2, "component": ["OST0000"] * 2,
        "job_key": [str(HEAVY), str(LIGHT)], "job_id": [HEAVY, LIGHT], "bytes": [36 * 10**9, 36 * 10**8],
        "count": [100, 10],
    }, rows=2, system="scratch", component_kind="ost", operation="read", quality=0)  # fmt: skip
    lake.append("job_operations", work, source="lustre")
    return Facilities({MAIN: root})


def samples(text: bytes) -> Samples:
    def every() -> Iterator[tuple[tuple[str, tuple[tuple[str, str], ...]], float]]:
        for family in text_string_to_metric_families(text.decode()):
            for sample in family.samples:
                yield (sample.name, tuple(sorted(sample.labels.items()))), sample.value

    found = list(every())
    assert len(dict(found)) == len(found), "no series twice"
    return dict(found)


@pytest.mark.parametrize("named", [True, False])
def test_components_are_counted_and_users_named_where_all_may_see_them(facilities: Facilities, named: bool) -> None:
    metrics = LakeMetrics(facilities, named=named, clock=lambda: END + MINUTE_NS)
    metrics._seen.patience_seconds = 60.0
    found = samples(metrics.render())
    counted = {labels: n for (name, labels), n in found.items() if name == "ioweather_unhealthy_components"}
    home = {dict(labels)["filesystem"] for labels in counted}.pop()
    assert {dict(labels)["kind"]: n for labels, n in counted.items()} == {**dict.fromkeys(KINDS, 0), "slow": 1}
    target = (("component", "OST0001"), ("filesystem", home), ("kind", "slow"))
    assert found["ioweather_unhealthy_probability", target] == 0.97
    top = {labels: n for (name, labels), n in found.items() if name == "ioweather_top_user_bytes_per_second"}
    assert sorted(top.values()) == [pytest.approx(1e6, rel=0.01), pytest.approx(1e7, rel=0.01)]
    assert {name for labels in top for name, _ in labels} == {"filesystem", "user" if named else "rank"}
    text = metrics.render().decode()
    assert str(HEAVY) not in text
    for user in ("anna", "ben", "carl"):
        assert named or user not in text


def test_old_rows_and_no_lake_say_nothing(facilities: Facilities, tmp_path: Path) -> None:
    metrics = LakeMetrics(facilities, named=True, clock=lambda: END + 3 * HOUR_NS)
    metrics._seen.patience_seconds = 60.0
    found = samples(metrics.render())
    assert {value for (name, _), value in found.items() if name == "ioweather_unhealthy_components"} == {0.0}
    assert not [name for name, _ in found if name.startswith("ioweather_top")]
    assert LakeMetrics(Facilities({MAIN: tmp_path / "none"}), named=True).render() == b""
