"""From roll-ups and from every operation: the same answers, within the error that is stated."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ioweather.agent.status import OperationStatus, Outcome, Recent, SpoolStatus, Status, TargetStatus, write_status
from ioweather.core.clock import now_ns, parse_time_ns
from ioweather.core.tables import RESPONSES
from ioweather.core.units import MINUTE_NS, NS
from ioweather.ingestion.derivations import refresh_rollups
from ioweather.lake.lake import open_lake
from ioweather.stats.histograms import RELATIVE_ERROR
from ioweather.topics.analyse import make_exhibits
from ioweather.ui.cli.main import run

DAYS = 3
WITHIN = RELATIVE_ERROR + 1e-9


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Of a time that does not move: where intervals begin in it is always the same."""
    return make_lake(tmp_path_factory.mktemp("exact"), parse_time_ns("2026-03-04 17:40Z"))


@pytest.fixture(scope="module")
def lake_of_now(tmp_path_factory):
    return make_lake(tmp_path_factory.mktemp("now"), now_ns() // MINUTE_NS * MINUTE_NS)


def make_lake(folder, end_ns):
    """An operation every ten seconds, log-normal, once slow for eight hours; 25 minutes ago a hang of ten minutes."""
    lake = open_lake(folder / "lake", create=True)
    n = DAYS * 8640
    starts = end_ns - np.arange(n, 0, -1) * 10 * NS
    rng = np.random.default_rng(11)
    duration = np.ma.MaskedArray(np.round(rng.lognormal(-5, 0.6, n) * NS).astype(np.int64), mask=np.zeros(n, np.bool_))
    duration[8640 : 8640 + 2880] *= 4
    hang = n - 150
    duration[hang] = 600 * NS
    duration[hang + 1 : hang + 60] = np.ma.masked
    status = np.where(np.ma.getmaskarray(duration), "missed", "ok").tolist()
    frame = RESPONSES.frame(
        start_ns=starts, host="h", target="/work/p", op="read", request_bytes=1 << 20, mode="nocache", status=status,
        system="mount:/work", duration_ns=duration, rows=n,
    )  # fmt: skip
    lake.append("responses", frame, source="spool")
    refresh_rollups(lake, frame)
    return lake


def both(lake, exhibit, **params):
    (rolled,) = make_exhibits(lake, [exhibit], params=params)
    (exact,) = make_exhibits(lake, [exhibit], params={**params, "exact": "yes"})
    return rolled, exact


@pytest.mark.parametrize("exhibit", ["kun19.fig4", "kun19.fig5", "kun19.fig6", "kun19.episodes"])
@pytest.mark.parametrize("baseline", ["whole", "1d", "read=7ms"])
def test_exhibits_agree(lake, exhibit, baseline):
    rolled, exact = both(lake, exhibit, baseline=baseline)
    assert [t.name for t in rolled.tables] == [t.name for t in exact.tables]
    # A ratio has the error of both its terms; an interval at the threshold of an episode may fall on either side.
    error = 2 * WITHIN
    found, true = ({e.name: e.value for e in made.estimates if e.unit != "count"} for made in (rolled, exact))
    assert found
    assert found.keys() == true.keys()
    assert {name for name in found if found[name] is None} == {name for name in true if true[name] is None}
    for name, value in true.items():
        assert value is None or found[name] == pytest.approx(value, rel=error), name
    assert rolled.coverage == exact.coverage
    assert any("accurate to" in caveat for caveat in rolled.caveats)
    assert not any("accurate to" in caveat for caveat in exact.caveats)


def test_the_tables_of_fig4_agree_cell_by_cell_and_name_both_countings(lake):
    rolled, exact = (made.tables[0] for made in both(lake, "kun19.fig4"))
    assert set(rolled.column("counted")) == {"raw", "omission_corrected"}
    for mine, true in zip(rolled.rows, exact.rows, strict=True):
        assert mine[:4] == true[:4]
        # Quantiles over intervals interpolate between two of them: each is within the error.
        assert mine[4:] == pytest.approx(true[4:], rel=WITHIN)


def test_the_hang_shows_in_the_corrected_tail_of_fig5_alone(lake):
    rolled, _ = both(lake, "kun19.fig5")
    rows = {
        row[2]: dict(zip([c.name for c in rolled.tables[0].columns], row, strict=True)) for row in rolled.tables[0].rows
    }
    assert rows["raw"]["q99"] < 1
    assert rows["omission_corrected"]["q99"] > 500
    assert rows["raw"]["max"] == rows["omission_corrected"]["max"] == 600
    assert rolled.coverage[0].excluded["missed_ticks"] == 59


@pytest.fixture
def spool(tmp_path):
    operation = OperationStatus("read", 1 << 20, "nocache", ok_count=9, last=Outcome(now_ns(), "ok"),
                                recent=Recent(60 * NS, 6, 20_000_000))  # fmt: skip
    target = TargetStatus("/work/p", "mount:/work", "waiting", NS, operations=(operation,))
    write_status(Status("h", 1, "b", "r", "running", now_ns(), now_ns(), NS, SpoolStatus("/s"), (target,)), tmp_path)
    return tmp_path


def facts(capsys):
    answer = json.loads(capsys.readouterr().out)
    return {fact["label"]: fact["value"] for group in answer["facts"] for fact in group["facts"]}, answer


def test_now_agrees_and_names_both_tails(lake_of_now, spool, capsys):
    command = ["now", "--spool", str(spool), "--lake", str(lake_of_now.root), "--json"]
    assert run(command) == 1
    rolled, answer = facts(capsys)
    assert "accurate to 1.0%" in answer["caveats"][-1]
    assert run([*command, "--exact"]) == 1
    exact, answer = facts(capsys)
    assert "single operations" in answer["caveats"][-1]
    assert rolled.keys() == exact.keys() == {"read", "read raw", "read omission_corrected"}
    assert rolled["read"] == pytest.approx(exact["read"], rel=WITHIN)
    assert rolled["read raw"] < 1
    assert rolled["read omission_corrected"] > 300
    # Roll-ups hold whole minutes: the first of the half hour is left out where the operations begin within it.
    assert rolled["read omission_corrected"] == pytest.approx(exact["read omission_corrected"], rel=0.05)
