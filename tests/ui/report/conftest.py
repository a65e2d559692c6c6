"""One small lake and its report, made once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_facility import make_small_lake

from ioweather.ui.report import write


@pytest.fixture(scope="session")
def small_lake(tmp_path_factory):
    return make_small_lake(tmp_path_factory.mktemp("report"))


FEW = {"car11.table2", "car11.table5", "car11.fig7", "pat19.fig3", "pat19.fig4", "mad17.table1", "kun19.fig5"}


@pytest.fixture(scope="session")
def material(small_lake):
    """What a report of a few exhibits is written from; the rest of the catalogue is left out with a reason."""
    with pytest.MonkeyPatch.context() as patch:
        keep_few(patch)
        return write.gather(small_lake)


@pytest.fixture
def few(monkeypatch):
    keep_few(monkeypatch)


def keep_few(patch):
    real = write.availability
    patch.setattr(
        write,
        "availability",
        lambda snapshot: [
            item if item.id in FEW else replace(item, ready=False, missing=("not asked for",))
            for item in real(snapshot)
        ],
    )
