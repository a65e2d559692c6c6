"""Options of version 0.2 that are gone say what to do instead."""

from __future__ import annotations

import pytest

from ioweather.agent.settings import settings_from
from ioweather.core.errors import FacilityError
from ioweather.ui.cli.main import run


@pytest.mark.parametrize(
    "line",
    [
        "agent run slurm",
        "agent run --annotate x",
        "probe --annotate x /tmp",
        "scan --entries /tmp",
        "scan --project A=b /tmp",
    ],
)
def test_a_removed_word_names_what_to_do_instead(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "It was removed." in said


def test_a_removed_setting_names_what_to_do_instead() -> None:
    with pytest.raises(FacilityError, match="Remove the line"):
        settings_from({"slurm_period": "5min"})
