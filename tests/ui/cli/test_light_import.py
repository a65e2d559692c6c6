"""`ioweather --help` is instant because it loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "numpy",
    "scipy",
    "_duckdb",
    "deltalake",
    "arro3",
    "altair",
    "rich",
    "h5py",
    "vl_convert",
    "pandas",
    "fastapi",
    "uvicorn",
)

PROBE = """
import sys
from ioweather.ui.cli.main import run
code = run({arguments!r})
loaded = [name for name in {heavy!r} if name in sys.modules]
print("LOADED", code, *loaded)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments):
    script = PROBE.format(arguments=arguments, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "LOADED 0"


MEASURED = """
import sys
for name in {heavy!r}:
    sys.modules[name] = None  # as if it were not installed
from ioweather.ui.cli.main import run
sys.exit(run({arguments!r}))
"""


def test_measuring_needs_none_of_the_heavy_packages(tmp_path):
    """What docs/how-to/install.md gives nodes that only measure: click, rich and prometheus-client."""
    (tmp_path / "disk").mkdir()
    arguments = ["probe", str(tmp_path / "disk"), "--for", "1s", "--spool", str(tmp_path / "spool")]
    heavy = [name for name in HEAVY if name != "rich"]
    script = MEASURED.format(arguments=arguments, heavy=heavy)
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stderr
    assert list((tmp_path / "spool" / "segments").iterdir())
    for line in (["agent", "run", "--help"], ["agent", "export", "--help"]):
        script = MEASURED.format(arguments=line, heavy=heavy)
        assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0
    script = MEASURED.format(arguments=["why", "1", "--server", "http://127.0.0.1:1"], heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "bug" not in done.stderr
