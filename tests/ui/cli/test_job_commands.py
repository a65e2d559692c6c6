"""`ioweather job` and `ioweather compare` as a person runs them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from planted_logs import MIB, NS, START, write_climate, write_empty


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_climate(tmp_path_factory.mktemp("logs") / "climate.darshan")


@pytest.fixture(scope="module")
def faster(log):
    return write_climate(log.parent / "faster.darshan", without=("MPI-IO",), end_ns=START + 50 * NS)


def widest(text: str) -> int:
    return max((len(line) for line in text.splitlines()), default=0)


def test_one_screen(call, log):
    code, out, err = call("job", log, "--full")
    assert (code, err) == (0, "")
    assert widest(out) <= 80
    assert len(out.splitlines()) <= 58
    assert "\x1b" not in out
    lines = [line.rstrip() for line in out.splitlines()]
    assert "  reading  ▏···················  0.62%  2.50 s" in lines
    assert "  shared           ███▍················  1  8 MiB written" in lines


def test_the_first_screen_is_short_and_says_how_to_see_the_rest(call, log):
    _, out, _ = call("job", log)
    assert len(out.splitlines()) <= 38
    assert "--full shows" in out
    assert out.splitlines()[0] == call("job", log, "--full")[1].splitlines()[0]


def test_the_documentation_shows_this_screen(call, log):
    page = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "look-at-a-job.md"
    shown = page.read_text().split("$ ioweather job climate.darshan --full\n", 1)[1].split("```", 1)[0]
    _, out, _ = call("job", log, "--full")
    assert shown.splitlines() == [line.rstrip() for line in out.splitlines()]


def test_as_json(call, log):
    code, out, _ = call("job", log, "--json", "--ppn", "2")
    assert code == 0
    body = json.loads(out)
    assert body["schema_version"] == 1
    assert body["headline"].startswith("climate on 4 processes")
    facts = {fact["label"]: fact["value"] for group in body["facts"] for fact in group["facts"]}
    assert facts["unique"] == 5
    assert facts["per compute node"] == pytest.approx((14 * MIB + 300) / MIB / 9.75 / 2)
    assert "job.posix" in {exhibit["id"] for exhibit in body["exhibits"]}
    assert body["provenance"]["params"] == {"processes_per_node": 2}


def test_as_csv(call, log):
    code, out, _ = call("job", log, "--csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["fact"]: row["value"] for row in rows}["shared"] == "1"
    assert call("job", log, "--csv", "--json")[0] == 2


def test_as_a_page_that_needs_nothing_else(call, log, tmp_path):
    page = tmp_path / "job.html"
    code, out, err = call("job", log, "--html", page)
    assert (code, out) == (0, "")
    assert str(page) in err
    text = page.read_text()
    for words in ("Modules in the log", "complete", "Bytes by rank and time",
                  "Interfaces", "bandwidth estimate", "Access sizes",
                  "Most common access sizes", "Operations", "Data by mount point", "Largest files"):  # fmt: skip
        assert words in text
    assert "<script" not in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert [path.name for path in tmp_path.iterdir()] == ["job.html"]


def test_names_from_a_log_cannot_steer_the_terminal(call, tmp_path):
    path = write_climate(tmp_path / "evil.darshan", exe="x\x1b]0;owned\x07 \x1b[2J")
    for arguments in (("job", path), ("compare", path, path)):
        code, out, _ = call(*arguments)
        assert code == 0
        assert not any(character in out for character in "\x1b\x07")
    assert "x?]0;owned?" in out


def test_a_page_that_cannot_be_written(call, log, tmp_path):
    code, _, err = call("job", log, "--html", tmp_path / "no" / "such" / "x.html")
    assert code == 2
    assert "--html" in err


def test_an_empty_run_has_no_empty_sections(call, tmp_path):
    code, out, _ = call("job", write_empty(tmp_path / "e.darshan"))
    assert code == 0
    assert "no I/O was recorded" in out
    assert not any(word in out for word in ("Files", "Speed", "Access", "Time of"))


@pytest.mark.parametrize("keep", [0.0, 0.2, 0.7, 0.99])
def test_a_log_that_is_cut_says_so_in_one_sentence(call, log, tmp_path, keep):
    cut = tmp_path / "cut.darshan"
    whole = log.read_bytes()
    cut.write_bytes(whole[: int(keep * len(whole))])
    code, out, err = call("job", cut)
    assert (code, out) == (2, "")
    assert err.startswith(f"ioweather: {cut}: ")
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err


def test_what_is_no_log_and_what_is_no_job(call, tmp_path, monkeypatch):
    monkeypatch.setenv("IOWEATHER_LAKE", str(tmp_path / "nowhere"))
    garbage = tmp_path / "x.darshan"
    garbage.write_text("hello " * 1000)
    assert call("job", garbage)[0] == 2
    assert call("job", tmp_path / "absent.darshan")[0] == 2
    code, _, err = call("job", "4711")
    assert code == 2
    assert "no lake" in err
    assert not (tmp_path / "nowhere").exists()


def test_an_id_that_the_lake_does_not_have(call, tmp_path):
    from ioweather.lake.lake import open_lake

    open_lake(tmp_path / "l", create=True)
    code, _, err = call("job", "4711", "--lake", tmp_path / "l")
    assert code == 1
    assert "ingest" in err


def test_a_comparison(call, log, faster, tmp_path):
    code, out, _ = call("compare", log, faster)
    assert code == 0
    assert widest(out) <= 80
    assert len(out.splitlines()) <= 58
    assert "B faster is" in " ".join(out.split())
    assert "B : A" in out
    assert "Performance of each run" in out
    code, out, _ = call("compare", log, faster, log, "--csv")
    assert code == 0
    assert [row["run"] for row in csv.DictReader(io.StringIO(out))] == ["A climate", "B faster", "C climate"]
    code, out, _ = call("compare", log, faster, "--json")
    assert "car11.fig11" in {exhibit["id"] for exhibit in json.loads(out)["exhibits"]}
    assert call("compare", log, faster, "--html", tmp_path / "c.html")[0] == 0
    assert "Before and after" in (tmp_path / "c.html").read_text()
    assert call("compare", log)[0] == 2


def test_a_screen_of_many_runs_still_fits(call, log, faster):
    code, out, _ = call("compare", *([log, faster] * 4))
    assert code == 0
    assert widest(out) <= 80


def readable_logs(samples: Path) -> list[Path]:
    """All but the one of version 1.4, which is refused by name."""
    logs = sorted(path for path in (samples / "darshan").rglob("*.darshan*") if path.is_file())
    return [path for path in logs if "id25476_" not in path.name]


def test_all_sample_logs_fit_the_screen(call, samples):
    logs = readable_logs(samples)
    logs += sorted((samples / "causes").glob("*.darshan"))[:5]
    logs += sorted((samples / "contention").glob("*.darshan"))[:5]
    assert len(logs) > 30
    for path in logs[::2]:
        code, out, err = call("job", path)
        assert (code, err) == (0, ""), path.name
        assert widest(out) <= 80, path.name
        # What is worth changing comes beside it: at most a title, seven lines and a sentence.
        assert len(out.splitlines()) <= 46 + 11, path.name
        lines = out.splitlines()
        assert lines[0].strip()
        assert "nan" not in out.lower().split(), path.name


# Ours and others': with all modules, without any file, with traces, with other libraries' modules, of version 2.
PAGES = ("examples/climate.", "examples/empty", "examples/many.", "examples/imbalanced_io_",
         "examples/ior_pnetcdf_hdf5__", "examples/mpi_io_test_with_dxt__", "v2/harms_IOR_id350690",
         "v2/24.")  # fmt: skip


def test_sample_logs_as_pages(call, samples, tmp_path):
    logs = [path for path in readable_logs(samples) if any(f"/{name}" in str(path) for name in PAGES)]
    assert len(logs) >= 4
    page = tmp_path / "x.html"
    for path in logs:
        assert call("job", path, "--html", page)[0] == 0, path.name
        text = page.read_text()
        assert 5_000 < len(text) < 1_500_000, path.name
        assert ">nan<" not in text, path.name
