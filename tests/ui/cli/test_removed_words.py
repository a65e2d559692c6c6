"""Options of version 0.2 that are gone say what to do instead."""

from __future__ import annotations

import pytest

from ioweather.agent.settings import settings_from
from ioweather.core.errors import FacilityError
from ioweather.ui.cli.main import REMOVED_WORDS, run


@pytest.mark.parametrize(("command", "word"), REMOVED_WORDS)
def test_a_removed_word_names_what_to_do_instead(command: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, f"{word}=x" if word.startswith("-") else word]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"`{word}` was removed." in said
    assert "ioweather" in said


def test_a_removed_setting_names_what_to_do_instead() -> None:
    with pytest.raises(FacilityError, match="Remove the line"):
        settings_from({"slurm_period": "5min"})
