"""The verdict as plain text: one line, one block, recorded or judged now."""

from __future__ import annotations

import pytest

from ioweather.core.errors import DataUnavailable
from ioweather.core.results import Amount
from ioweather.core.units import MINUTE_NS
from ioweather.diagnosis import recorded_verdicts as verdicts
from ioweather.diagnosis.recorded_verdicts import JobText, job_text
from ioweather.job_io.outcomes import AdviceItem, SplitSeconds, WhyOutcome
from ioweather.ui.cli.main import run as command
from planted_association import START_NS
from planted_why import ASKED, MINUTES, make_why_lake

LATER_NS = START_NS + MINUTES * MINUTE_NS
ADVICE = AdviceItem("small_requests", "small_or_misaligned", "…", 39.2, 1.0, 50.0, ("read(fd, buffer, 4 << 20)",))
WHY = WhyOutcome(
    "system", None, "system", 0.96, io_seconds=240.0, n=41, worth=(ADVICE,),
    seconds=SplitSeconds(Amount(46.0), Amount(192.0), Amount(-1.0), None),
)  # fmt: skip


def test_the_line_has_headline_probability_and_what_to_change():
    line = JobText("7", "Storage was slow, not your job (96% sure): it was\nslow.", WHY, "at its end").line()
    assert line == (
        "Storage was slow, not your job (96% sure): it was\\nslow. "
        "Worth changing: small requests (39.2 s): read(fd, buffer, 4 << 20). "
        "(ioweather, at its end)"
    )
    assert len(JobText("7", "x" * 2000, WHY, "now").line()) == 500


def test_the_block_fits_a_terminal():
    lines = (
        JobText("7", "Storage was slow, not your job (96% sure): " + "its I/O was slow " * 9, WHY, "at its end")
        .block()
        .splitlines()
    )
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 25
    assert "  storage           3.20 min  [|||||||||||||||||||||||||||||         80%]" in lines
    assert "  its own change         0 s  [                                       0%]" in lines
    assert not any("unexplained" in line for line in lines), "what is not known is not drawn"


def test_the_block_ends_with_the_command_for_the_cluster_that_was_selected():
    assert JobText("7", "Fast.", WHY, "judged now").block().splitlines()[-2] == "More: ioweather why 7"
    of_two = JobText("7", "Fast.", WHY, "judged now", "green hpc").block()
    assert of_two.splitlines()[-2] == "More: ioweather why 7 --cluster 'green hpc'"


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    made = make_why_lake(tmp_path_factory.mktemp("text") / "lake")
    with made.snapshot() as snapshot, pytest.MonkeyPatch.context() as patch:
        digest = snapshot.scalar(f"SELECT log_digest FROM applications WHERE job_id = {ASKED['system']}")
        due = [item for item in verdicts.due_verdicts(snapshot, LATER_NS) if item.digest == digest]
        patch.setattr(verdicts, "due_verdicts", lambda *_: due)
        verdicts.judge_due(made, clock=lambda: LATER_NS, most_seconds=600)
    return made


def test_recorded_where_it_is_and_else_judged_now(lake, capsys):
    recorded = job_text(lake, str(ASKED["system"]))
    assert recorded.when.startswith("as of 20"), "the latest, a day after its end"
    assert recorded.outcome.kind == "system"
    now = job_text(lake, str(ASKED["you"]))
    assert (now.when, now.outcome.kind) == ("judged now", "you")
    with pytest.raises(DataUnavailable):
        job_text(lake, str(ASKED["you"]), recorded=True)
    assert job_text(lake, str(ASKED["system"]), uid=3) == recorded
    assert command(["why", str(ASKED["system"]), "--lake", str(lake.root), "--line"]) == 0
    assert capsys.readouterr().out == recorded.line() + "\n"
    assert command(["why", str(ASKED["system"]), "--lake", str(lake.root), "--block"]) == 0
    assert capsys.readouterr().out == recorded.block()
    assert command(["why", str(ASKED["you"]), "--lake", str(lake.root), "--block", "--recorded"]) == 1
