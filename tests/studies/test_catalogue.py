"""What the papers' files say of exhibits is what the studies say."""

from __future__ import annotations

from ioweather.core.papers import exhibits
from ioweather.topics.catalogue import STUDIES


def test_every_exhibit_is_made_by_the_study_that_its_paper_s_file_names():
    made = {exhibit: name for name, study in STUDIES.items() for exhibit in study.exhibits}
    assert {entry.id: entry.study for entry in exhibits()} == made
