"""The commands as a person runs them: output, formats, exit codes, 80 columns."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from ioweather.ui.cli.main import COMMANDS
from made_once import made_once


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demonstration lake: made once, only read here."""
    from ioweather.ui.local_setup import make_demo

    return made_once(tmp_path_factory.mktemp("demo"), "demo", make_demo)


def widest(text: str) -> int:
    return max((len(line) for line in text.splitlines()), default=0)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_80_columns(call, name):
    code, out, _ = call(name, "--help")
    assert code == 0
    assert widest(out) <= 80
    assert re.search(r"Examples?:\s+ioweather", out)


def test_params_are_listed_and_checked(call, demo):
    code, out, _ = call("show", "car11.fig7", "--params")
    assert code == 0
    assert "filesystem" in out
    code, _, err = call("show", "car11.fig7", "--lake", demo, "--set", "nonsense=1")
    assert code == 2
    assert "filesystem" in err
    code, _, err = call("show", "car11.fig7", "--lake", demo, "--set", "resolution=soon")
    assert code == 2
    assert "duration" in err


def test_a_period_without_data_says_so(call, demo):
    code, _, err = call("show", "car11.fig7", "--lake", demo, "--from", "1999-01-01", "--to", "1999-01-02")
    assert code == 1
    assert err.startswith("ioweather: ")
    assert "Traceback" not in err


def test_ids_are_printed_as_they_are_typed(call, demo):
    _, out, _ = call("sql", "--lake", demo, "SELECT 100062 AS job_id, 100063 AS raw_job_id, 1007 AS uid, 4711 AS n")
    assert out.splitlines()[-1].split() == ["100062", "100063", "1007", "4,711"]


def test_the_list_of_jobs_says_how_many_more_there_are(call, demo):
    _, out, _ = call("jobs", "--lake", demo, "--json")
    count = json.loads(out)["result"]["count"]
    _, out, _ = call("jobs", "--lake", demo, "--most", "20")
    assert f"{count - 18:,} more: ioweather jobs --most {count} --csv" in out


def test_results_are_cached_and_fresh_makes_them_anew(call, demo):
    made = [json.loads(call("show", "car11.fig7", "--lake", demo, "--json", *extra)[1])["provenance"]["made_ns"]
            for extra in ((), (), ("--fresh",))]  # fmt: skip
    assert made[0] == made[1] < made[2]


def test_unknown_exhibits_lakes_and_files(call, demo, tmp_path):
    assert call("show", "car11.fig99", "--lake", demo)[0] == 2
    code, _, err = call("lake", "--lake", tmp_path / "absent")
    assert code == 2
    assert "ingest" in err
    code, _, err = call("ingest", tmp_path / "absent.txt", "--lake", tmp_path / "l")
    assert code == 2
    assert "absent.txt" in err
    assert call("ingest", "--lake", tmp_path / "l")[0] == 2
    assert call("nonsense")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["shwo"], "Did you mean show?"),
        (["show", "fig7"], "There are: car11.fig7, mad17.fig7, pat19.fig7."),
        (["show", "nonsense"], "`ioweather show` lists them all."),
        (["ingest", "README.md", "--source", "nope"], "There is no source 'nope'. There are: "),
        (["agent", "export", "--once"], "Add --textfile FILE."),
    ],
)
def test_mistakes_are_answered_with_what_to_do(call, demo, tmp_path, monkeypatch, arguments, said):
    monkeypatch.setenv("IOWEATHER_LAKE", str(demo) if arguments[0] == "show" else str(tmp_path / "new"))
    code, _, err = call(*arguments)
    assert code == 2
    assert said in err


def test_demo_does_not_overwrite_a_real_lake(call, tmp_path):
    from ioweather.lake.lake import open_lake

    open_lake(tmp_path / "real", create=True)
    code, _, err = call("demo", "--out", tmp_path / "real")
    assert code == 2
    assert "real lake" in err


@pytest.mark.parametrize("question", ["why 100088", "health", "who --from 2026-03-02 --to 2026-03-09"])
def test_the_answers_in_the_readme_are_what_the_demonstration_gives(call, demo, question):
    """But for digits, which a processor may round otherwise, and the bars that follow them; dots leave out the rest."""
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    shown = readme.partition(f"$ ioweather {question}\n")[2].partition("```")[0].removesuffix("...\n")
    code, out, _ = call(*question.split(), "--lake", demo)
    assert (code, len(shown.splitlines()) > 1) == (0, True)

    def words(text):
        return re.sub(r"[█▉▊▋▌▍▎▏·]+|[\d.,]+( ms| s| min)?|\s+", " ", text).split()

    assert words(shown) == words(out)[: len(words(shown))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    ["job 100088", "triage --since 7d", "events", "show pat19.fig7", "project combustion", "exhibits", "runs",
     "predict 1TiB --request 16MiB", "stripe 64GiB", "forecast", "who 100088", "health", "storage"],
)  # fmt: skip
def test_examples_of_the_readme_answer_on_the_demonstration(call, demo, command):
    code, out, _ = call(*command.split(), "--lake", demo)
    assert code == 0
    assert "No answer" not in out
    assert widest(out) <= 80


def test_without_a_lake_the_catalogue_is_still_listed(call, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("IOWEATHER_LAKE", raising=False)
    code, out, _ = call("exhibits")
    assert code == 0
    assert "0 of 67" in out
    assert not Path(tmp_path, "ioweather").exists()


def test_what_was_probed_is_named_too(call, tmp_path):
    from store_lakes import series_frame

    from ioweather.core.facility import load_facility
    from ioweather.core.tables import encode_text
    from ioweather.lake.lake import open_lake
    from planted_responses import rows

    place = tmp_path / "l"
    lake = open_lake(place, create=True)
    lake.append("series", series_frame(np.ones((2, 1)), system="scratch"), source="tts")
    for size, mount in ((1 << 20, "mount:/scratch"), (2 << 20, "mount:/")):
        frame = rows(size, 20)
        lake.append("responses", frame.with_columns(system=encode_text([mount] * frame.rows)), source="spool")
    code, out, _ = call("facility", "check", "--lake", place)
    assert code == 1
    assert "mount:/scratch" in out
    assert call("facility", "init", "--lake", place)[0] == 0
    made = load_facility(place / "facility.toml")
    found = {(system.name, system.lustre, system.mounts) for system in made.filesystems}
    assert found >= {("scratch", ("scratch",), ("/scratch",)), ("root", (), ("/",))}
    assert call("facility", "check", "--lake", place)[0] == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["exhibits"], ["show"]),
        (["runs", "--order", "slowest"], ["jobs", "--order", "slowest"]),
        (["storage"], ["fs"]),
    ],
)
def test_old_names_work_with_a_hint(call, demo, old, new):
    code, out, err = call(*old, "--lake", demo)
    assert code == 0
    assert f"`{old[0]}` is now `{new[0]}`" in err
    assert call(*new, "--lake", demo)[1] == out


@pytest.mark.parametrize("old", ["catch-up", "collect", "export", "predictability", "sample", "stripe", "what-if"])
def test_old_names_show_the_help_of_the_new_command(call, old):
    code, out, err = call(old, "--help")
    assert code == 0
    assert "Usage: ioweather" in out
    assert f"`{old}` is now" in err
