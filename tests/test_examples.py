"""What lies in examples/: the package installs, reads and is checked; the notebooks run."""

from __future__ import annotations

import ast
import base64
import contextlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ioweather
from ioweather.testing import ChecksFailed, check_source
from ioweather.ui.charts.render import exhibit_figure

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PACKAGE = EXAMPLES / "ioweather-example-source"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
PAPERS = sorted(EXAMPLES.glob("papers/*.ipynb"))
PUBLIC_DATA = EXAMPLES.parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def installed(tmp_path_factory) -> Path:
    """The package as pip installs it. pip must find its build backend: here, or in an index."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(PACKAGE)]
    if importlib.util.find_spec("hatchling"):
        command.insert(4, "--no-build-isolation")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"pip could not build the package: {done.stderr.strip().splitlines()[-1:]}")
    return folder


def run(folder: Path, place: Path, *args: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", *map(str, args)]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=300)


def sample_lines(samples: int) -> bytes:
    name = importlib.util.spec_from_file_location("example_test", PACKAGE / "tests" / "test_source.py")
    assert name is not None
    assert name.loader is not None
    module = importlib.util.module_from_spec(name)
    name.loader.exec_module(module)
    return bytes(module.fsmon_lines(samples))


def test_the_installed_package_reads_its_format(installed, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(installed))
    (tmp_path / "fsmon.log").write_bytes(sample_lines(3))
    done = run(installed, tmp_path, "ioweather", "ingest", "fsmon.log", "--lake", "lake")
    assert (done.returncode, done.stderr) == (0, "")
    assert "8 rows of series" in done.stdout
    query = "SELECT source, component, sum(value) FROM series WHERE metric = 'read_bytes' GROUP BY ALL ORDER BY 2"
    found = ioweather.sql(query, tmp_path / "lake").rows
    assert found == (("fsmon", "node1", 2 * 6_291_456.0), ("fsmon", "node2", 4 * 6_291_456.0))
    listed = run(installed, tmp_path, "ioweather", "ingest", "--list-sources", "--csv").stdout
    assert "fsmon,Lines of fsmon: counters of a file system on a node,series,ioweather-example-source 1.0" in listed


@pytest.mark.slow
def test_its_own_tests_pass(installed, tmp_path):
    options = "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, "-c", os.devnull
    done = run(installed, tmp_path, "pytest", *options, PACKAGE / "tests")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


BUGS = {
    "fine": ("", "", ""),
    "negative": ("float(amount)", "-float(amount)", "value"),
    "endless": (
        "if found is None:",
        "while found is None:\n                    pass\n                if False:",
        "time",
    ),
}


@pytest.mark.parametrize("name", [n if n == "negative" else pytest.param(n, marks=pytest.mark.slow)
                                  for n in BUGS])  # fmt: skip
def test_mistakes_planted_in_it_are_found(name, tmp_path, monkeypatch):
    old, new, expected = BUGS[name]
    code = (PACKAGE / "src/ioweather_example_source/__init__.py").read_text()
    assert old in code
    (tmp_path / f"fsmon_{name}.py").write_text(code.replace(old, new, 1) if old else code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(PACKAGE / "src"))
    source = __import__(f"fsmon_{name}").SOURCE
    sample = tmp_path / "fsmon.log"
    sample.write_bytes(sample_lines(20))
    if not expected:
        check_source(source, [sample])
        return
    with pytest.raises(ChecksFailed, match=expected):
        check_source(source, [sample])


def cells_of(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("notebook", [*NOTEBOOKS, *PAPERS], ids=lambda path: path.stem)
def test_notebooks_have_small_outputs_and_use_public_names(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    assert notebook.stat().st_size < 400_000
    assert not any(cell.get("execution_count") for cell in cells)
    assert any(cell.get("outputs") for cell in cells) == (notebook in PAPERS)
    for cell in cells_of(notebook):
        for node in ast.walk(ast.parse(cell)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ioweather":
                assert node.attr in ioweather.__all__


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_cells(notebook)


@pytest.mark.parametrize("there", [False, True], ids=["without data", "with public data"])
@pytest.mark.parametrize("notebook", PAPERS, ids=lambda path: path.stem)
def test_papers_are_reproduced_from_public_data_where_it_is(notebook, there, tmp_path, monkeypatch):
    if there and not PUBLIC_DATA.is_dir():
        pytest.skip("no public data here")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IOWEATHER_PUBLIC_DATA", str(PUBLIC_DATA if there else tmp_path / "none"))
    outputs: list[list[dict[str, object]]] = []
    last = run_cells(notebook, outputs)
    assert (last == "no data") is not there
    if there and os.environ.get("IOWEATHER_RECORD"):
        body = json.loads(notebook.read_text())
        code = [cell for cell in body["cells"] if cell["cell_type"] == "code"]
        for cell, made in zip(code, outputs, strict=True):
            cell["outputs"] = made
        notebook.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")


def small_picture(png: bytes) -> str:
    """Return a picture of at most 800 px and 32 colours as base64, so that a notebook stays small."""
    from PIL import Image  # only where outputs are recorded

    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.thumbnail((800, 4000))
    made = io.BytesIO()
    picture.quantize(32).save(made, "png", optimize=True)
    return base64.b64encode(made.getvalue()).decode()


def run_cells(notebook: Path, outputs: list[list[dict[str, object]]] | None = None) -> object:
    """Cell by cell, and what each ends with is shown, as a notebook does: text, and the figure of an exhibit."""
    value: object = None
    names: dict[str, object] = {}
    for cell in cells_of(notebook):
        tree, made = ast.parse(cell), []
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(tree, notebook.name, "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), notebook.name, "eval"), names)
        if isinstance(last, ast.Expr):
            assert len(repr(value)) < 3_000, cell
            if hasattr(value, "_repr_html_"):
                assert 20 < len(value._repr_html_()) < 2_000_000
        if printed.getvalue():
            made.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue()})
        if isinstance(last, ast.Expr) and value is not None:
            data = {"text/plain": repr(value)}
            if outputs is not None and os.environ.get("IOWEATHER_RECORD") and getattr(value, "charts", ()):
                data["image/png"] = small_picture(exhibit_figure(value, "png"))
            made.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
        if outputs is not None:
            outputs.append(made)
    return value


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("dd") is None, reason="dd is missing")
def test_known_work_on_a_disk_is_reported(tmp_path):
    command = [sys.executable, str(EXAMPLES / "prove.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, list(tmp_path.iterdir())) == (0, []), done.stdout + done.stderr
