"""A site's notes and rules, and lines for the file system and the MPI at hand."""

from __future__ import annotations

import pytest

from ioweather.core.errors import IoweatherError
from ioweather.job_io.advisor.advise import advice_facts, advise
from planted_advice import GIB, KIB, LARGE, each, own, requests, shared, striped, view_of

NOTE = """
[note.small_requests]
text = "Our guide to buffering: https://docs.example.org/io"

[rule.home_as_scratch]
headline = "data in /home"
dimension = "metadata"
mounts = ["/home"]
files = ["written"]
when = ["write_bytes >= 64 * MiB"]
saves = "seconds / 2"
evidence = "{write_bytes} written to /home"
fix = ["cd /scratch/$USER"]
"""


@pytest.fixture
def site(monkeypatch, tmp_path):
    def use(text):
        path = tmp_path / "advice.toml"
        path.write_text(text)
        monkeypatch.setenv("IOWEATHER_ADVICE", str(path))

    return use


def small(path, **job):
    return view_of(path, {"POSIX": each(**requests("WRITE", 4000, 16 * KIB, 20.0))}, **job)


def test_a_note_of_the_site_follows_the_line_to_change(site, tmp_path):
    site(NOTE)
    advised = advise(small(tmp_path / "a.darshan"))
    notes = [fact.note for fact in advice_facts(advised)[0].facts if fact.label == "  your site"]
    assert notes == ["Our guide to buffering: https://docs.example.org/io"]


def test_a_rule_of_the_site_needs_no_code(site, tmp_path):
    site(NOTE)
    mounts = (("/scratch", "nfs"),)
    assert "home_as_scratch" not in {a.name for a in advise(small(tmp_path / "a.darshan")).patterns}
    site(NOTE.replace('"/home"', '"/scratch"'))
    (found,) = [a for a in advise(small(tmp_path / "b.darshan", mounts=mounts)).patterns if a.name == "home_as_scratch"]
    assert (found.model_seconds, found.evidence) == (10.0, "250 MiB written to /home")
    assert (found.fix_lines, found.saving.tried) == (("cd /scratch/$USER",), False)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seconds / 2", "minutes / 2", r"\[rule.home_as_scratch\] .*minutes is not a measure"),
        ("seconds / 2", "().__class__", "is not a measure"),
        ("seconds / 2", "min.__doc__", "is not a measure"),
        ("{write_bytes} written", "{wrote} written", "wrote is not a measure"),
        ('"written"', '"wet"', "files: wet is unknown"),
        ("[note", "[notes", "unknown key notes"),
        ('"metadata"', '"speed"', "needs `dimension`"),
        ("text =", "words =", "needs `text`"),
        ("headline", "title", "title"),
        ("[rule.home_as_scratch]", "[rule", "Expected"),
    ],
)
def test_a_site_file_with_a_fault_names_it(site, tmp_path, old, new, said):
    site(NOTE.replace(old, new))
    with pytest.raises(IoweatherError, match=said) as error:
        advise(small(tmp_path / "a.darshan"))
    assert "advice.toml" in error.value.message


def test_a_missing_site_file_is_an_error_only_if_it_was_named(monkeypatch, tmp_path):
    monkeypatch.setenv("IOWEATHER_ADVICE", str(tmp_path / "gone.toml"))
    with pytest.raises(IoweatherError, match="cannot be read"):
        advise(small(tmp_path / "a.darshan"))


@pytest.mark.parametrize(
    ("kind", "start"), [("lustre", "lfs setstripe"), ("beegfs", "beegfs-ctl"), ("gpfs", "mmlsattr"), ("nfs", None)]
)
def test_commands_are_those_of_the_file_system_at_hand(tmp_path, kind, start):
    rows = [shared(50.0, 49.0, **requests("WRITE", 40_000, 64 * KIB, 400.0, OPENS=8)),
            own(0, file=9, **requests("WRITE", 2048, LARGE, 30.0))]  # fmt: skip
    mounts = (("/scratch", kind),)
    modules = {"POSIX": rows} | ({"LUSTRE": striped(1)} if kind == "lustre" else {})
    found = advise(view_of(tmp_path / "a.darshan", modules, 8, 1, mounts=mounts)).patterns
    lines = [line for advice in found for line in advice.fix_lines]
    tools = {name for name in ("lfs", "beegfs-ctl", "mmlsattr") for line in lines if line.startswith(name)}
    assert tools <= ({start.split()[0]} if start else set())


@pytest.mark.parametrize(
    ("job", "line"),
    [
        ({}, 'MPI_Info_set(info, "romio_cb_write", "enable");'),
        ({"mounts": (("/opt/cray/pe", "squashfs"), ("/scratch", "lustre"))},
         "export MPICH_MPIIO_HINTS=*:romio_cb_write=enable"),
        ({"exe": "/apps/openmpi/bin/solver"}, "mpirun --mca fcoll vulcan"),
    ],
)  # fmt: skip
def test_hints_are_those_of_the_mpi_at_hand(tmp_path, job, line):
    rows = [shared(**requests("WRITE", 0, 16 * KIB, 40.0, "MPI-IO", INDEP_WRITES=8000, BYTES_WRITTEN=GIB,
                              SIZE_WRITE_AGG_10K_100K=8000))]  # fmt: skip
    found = {a.name: a for a in advise(view_of(tmp_path / "a.darshan", {"MPI-IO": rows}, **job)).patterns}
    assert line in found["no_collectives"].fix_lines
