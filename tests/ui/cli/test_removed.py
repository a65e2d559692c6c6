"""Commands and options of the last release that are gone name what replaces them."""

from __future__ import annotations

import pytest

from ioweather.agent.settings import settings_from
from ioweather.core.errors import IoweatherError
from ioweather.ui.cli.main import run


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("ingest x --slurm 4", "--dask ADDRESS"),
        ("report --slurm 4", "--dask ADDRESS"),
        ("relieve --by space", "lfs find DIRECTORY --ost N"),
        ("lake backup x --verify", "ioweather lake check --lake DEST"),
        ("report --only car11.fig7", "ioweather show ID --out FILE.html"),
        ("agent run slurm", "ingest --watch"),
        ("agent run --annotate x", "ingest --as events"),
        ("probe --annotate x /tmp", "ingest --as events"),
        ("scan --entries /tmp", "ingest --as scan_entries"),
        ("scan --project A=b /tmp", "facility check"),
        ("now --watch", "watch ioweather now"),
        ("fs --live --order read", "busiest targets first"),
        ("ingest --map x y", "mapping.toml"),
        ("probe --paper /tmp", "--file-size 200GiB --pool 200000"),
        ("serve token create n1 --to x", "umask 077"),
        ("lake restore x", "ioweather lake backup NEW --lake BACKUP"),
    ],
)
def test_what_was_removed_names_its_replacement(line: str, instead: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 2
    assert f"It was removed. {instead}"[:15] in (said := capsys.readouterr().err)
    assert instead in said


def test_a_misspelled_option_was_not_removed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lake", "backup", "x", "--nothing"]) == 2
    assert "removed" not in capsys.readouterr().err


def test_a_removed_setting_names_what_to_do_instead() -> None:
    with pytest.raises(IoweatherError, match="Remove the line"):
        settings_from({"slurm_period": "5min"})
