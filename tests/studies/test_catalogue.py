"""What the papers' files say of exhibits is what the studies say."""

from __future__ import annotations

import ast
import subprocess
import sys

from ioweather.core.papers import exhibits
from ioweather.studies.catalogue import STUDIES


def test_every_exhibit_is_made_by_the_study_that_its_paper_s_file_names():
    made = {exhibit: name for name, study in STUDIES.items() for exhibit in study.exhibits}
    assert {entry.id: entry.study for entry in exhibits()} == made


def test_to_find_a_study_loads_no_other():
    script = """
import sys
from ioweather.workflows.analyse import study_of
study_of("car11.fig7")
print(sorted(name for name in sys.modules if name.startswith("ioweather.studies.") and name.count(".") > 2))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = ast.literal_eval(done.stdout)
    assert "ioweather.studies.climate.utilisation" in loaded
    assert not [
        name for name in loaded if not name.startswith(("ioweather.studies.climate.u", "ioweather.studies.shared"))
    ]
