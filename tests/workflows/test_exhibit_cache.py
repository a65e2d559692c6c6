"""What a study gave is kept; also that it gave nothing, which may take as long to find out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from store_lakes import series_frame

from ioweather.core.errors import DataUnavailable
from ioweather.lake.lake import open_lake
from ioweather.topics import analyse
from ioweather.topics.analyse import make_exhibits, study_of


def test_an_exhibit_that_does_not_come_is_not_looked_for_again(tmp_path, monkeypatch):
    lake = open_lake(tmp_path / "lake", create=True)
    for metric in ("read_bytes", "write_bytes"):
        lake.append("series", series_frame(np.ones((50, 4)), metric=metric), source="tts")
    study = study_of("car11.fig7")
    assert study is not None
    runs = []

    def run(*arguments):
        runs.append(1)
        return (exhibit for exhibit in study.run(*arguments) if exhibit.id != "car11.fig6")

    monkeypatch.setattr(analyse, "STUDIES", {study.name: replace(study, run=run)})
    for _ in range(3):
        assert make_exhibits(lake, ["car11.fig7"])[0].id == "car11.fig7"
        with pytest.raises(DataUnavailable, match="no interval of the period has samples"):
            make_exhibits(lake, ["car11.fig6"])
    assert len(runs) == 2, "once for each of them"
    lake.append("series", series_frame(np.ones((60, 4))), source="tts")
    with pytest.raises(DataUnavailable):
        make_exhibits(lake, ["car11.fig6"])
    assert len(runs) == 3


def test_only_the_newest_results_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(analyse, "_MOST_CACHED", 3)
    lake = open_lake(tmp_path / "lake", create=True)
    for metric in ("read_bytes", "write_bytes"):
        lake.append("series", series_frame(np.ones((50, 4)), metric=metric), source="tts")
    for hour in range(1, 6):
        made = make_exhibits(lake, ["car11.fig7"], period_ns=(0, 2**61 + hour))[0]
    kept = list((lake.root / "exhibits" / "car11.fig7").glob("*"))
    assert len(kept) == 3
    assert (
        make_exhibits(lake, ["car11.fig7"], period_ns=(0, 2**61 + 5))[0].provenance.made_ns == made.provenance.made_ns
    )
