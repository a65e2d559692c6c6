"""The exhibits of don15 through a lake: needs, default choosers, published values."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioweather.core.units import MIB
from ioweather.lake.lake import Lake, open_lake
from ioweather.topics.analyse import make_exhibits
from planted_responses import SIZES, rows


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    path: Path = tmp_path_factory.mktemp("lake") / "lake"
    made = open_lake(path, create=True)
    for size in SIZES[:3]:
        made.append("responses", rows(size, 160 if size == MIB else 120, targets=2), source="planted")
    return made


def test_every_exhibit_is_made_with_its_defaults(lake: Lake) -> None:
    ids = [
        f"don15.{name}" for name in ("table2", "fig1", "fig2", "singlefits", "fig3", "fig4", "fig5", "fig6", "maxorder")
    ]
    made = make_exhibits(lake, ids, params={"replicates": "4"})
    assert [exhibit.id for exhibit in made] == ids
    assert made[0].published
    # The commonest size is chosen from the lake.
    assert made[1].charts[0].title == "Requests of 1 MiB"


def test_the_best_widths_depend_on_the_transfer(lake: Lake) -> None:
    (made,) = make_exhibits(lake, ["don15.maxorder"], params={"replicates": "0", "transfer_size": "64MiB"})
    assert [row[0] for row in made.tables[0].rows] == [4, 8, 16, 32, 64]
