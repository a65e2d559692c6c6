"""The demonstration, systemd units, and what `ioweather up` runs."""

from __future__ import annotations

import ctypes
import datetime as dt
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple, cast

from ioweather.agent.status import read_status
from ioweather.core.errors import DataUnavailable, IoweatherError, UsageError
from ioweather.core.logs import Progress, silent
from ioweather.core.results import Answer
from ioweather.core.safe_files import default_spool_dir, is_inside
from ioweather.core.units import NS, names_of, now_ns
from ioweather.diagnosis.list_jobs import RunsOutcome
from ioweather.job_io.outcomes import WhyOutcome
from ioweather.lake import layout
from ioweather.lake.lake import Lake, open_lake
from ioweather.simulate.generate import generate
from ioweather.simulate.ingest_simulated import ingest_simulated
from ioweather.simulate.presets import LAPTOP
from ioweather.topics.source import ask

# In the wheel they are beside this module, in a working copy in deploy.
_PLACES: Final = (Path(__file__).with_name("systemd"), Path(__file__).parents[3] / "deploy" / "systemd")
# What a unit of an ordinary user may say: others of the sandbox need the rights of the system's manager.
_USER_KEYS: Final = names_of("""
    Description After Wants Type ExecStart SuccessExitStatus Restart RestartSec KillMode TimeoutStopSec TimeoutStartSec
    Nice UMask NoNewPrivileges WantedBy OnBootSec OnUnitInactiveSec AccuracySec OnCalendar RandomizedDelaySec Persistent
""")


@dataclass(frozen=True)
class Site:
    """The places of an installation. `probes`: directories that the agent writes to."""

    program: Path
    lake: Path
    spool: Path
    reports: Path
    backup: Path
    probes: Sequence[str] = ()
    user: str | None = None  # None: units of an ordinary user


def unit_texts(site: Site) -> Mapping[str, str]:
    """Return the units by file name."""
    folder = next((place for place in _PLACES if place.is_dir()), None)
    if folder is None:
        raise UsageError("This installation has no units.")
    found = [path for path in sorted(folder.iterdir()) if path.suffix in (".service", ".timer")]
    return {path.name: _adapt_systemd_unit(path.read_text(encoding="utf-8"), site) for path in found}


def _adapt_systemd_unit(text: str, site: Site) -> str:
    """Return a shipped systemd unit with its example paths, user and sandbox replaced by those of `site`.

    Without `site.user` it is a unit of the calling user. Raises UsageError for paths that systemd would interpret.
    """
    probes = " ".join(f"-{path}" for path in site.probes)
    replaced = {
        "/opt/ioweather/bin/ioweather": site.program,
        "/srv/weather-reports": site.reports,
        "/srv/weather": site.lake,
        "/backup/weather": site.backup,
        "-/scratch/.weather": probes,
        "/var/lib/ioweather/spool": site.spool,
    }
    for path in (*replaced.values(), *site.probes):
        if re.search(r"[\s%$\"'\\]", str(path)) and path != probes:
            raise UsageError(f"{path} contains a character that systemd would change.", hint="Choose another path.")
    pattern = re.compile("|".join(map(re.escape, replaced)))
    text = pattern.sub(lambda match: str(replaced[match[0]]), text)
    if site.user is not None:
        if any(is_inside(str(place), home) for place in (site.program, site.lake) for home in ("/home", "/root")):
            text = re.sub(r"^ProtectHome=.*$", "ProtectHome=read-only", text, flags=re.MULTILINE)
        return re.sub(r"^(User|Group)=.*$", rf"\1={site.user}", text, flags=re.MULTILINE)
    lines = [line for line in text.splitlines() if not line or line[0] in "#[" or line.partition("=")[0] in _USER_KEYS]
    text = "\n".join([*lines, ""]).replace("WantedBy=multi-user.target", "WantedBy=default.target")
    # The system's manager gives the agent its spool; here the command line says it.
    return text.replace("agent run --lake", f"agent run --spool {site.spool} --lake")


def write_units(out: Path, site: Site) -> list[Path]:
    """Write the units, and make the folders that they write to; return what was made."""
    made = []
    try:
        # The system's manager makes the spool itself (StateDirectory).
        for folder in (site.lake, site.reports, site.backup, *([] if site.user else [site.spool])):
            if not folder.is_dir():
                folder.mkdir(parents=True, mode=0o750)
                made.append(folder)
                if site.user:
                    shutil.chown(folder, site.user, site.user)
        out.mkdir(parents=True, exist_ok=True)
        for name, text in unit_texts(site).items():
            (out / name).write_text(text, encoding="utf-8")
            made.append(out / name)
    except LookupError:
        hint = f"useradd --system --user-group --home-dir /var/lib/ioweather {site.user}"
        raise UsageError(f"User {site.user} does not exist here.", hint=hint) from None
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}.") from None
    return made


_SEED = 1
_MOST_TRIED = 10  # slow jobs that are asked about
# The same week once: the copies of a day in other formats, and most of the probes, only cost time here.
PRESET = replace(LAPTOP, detail_day=None, probe_seconds=600, sampler_seconds=3600, scan_files=1500)


def make_demo(out: Path | None = None, *, progress: Progress = silent) -> Path:
    """Make the simulated facility and read it into its own lake, and return the lake's directory.

    Replaces a simulated lake, never a real one.
    """
    root = out or layout.default_lake_dir().with_name("demo")
    if layout.is_lake(root) and not open_lake(root).facility.simulated:
        raise UsageError(f"{root} is a real lake.", hint="Specify another directory with --out.")
    root.absolute().parent.mkdir(parents=True, exist_ok=True)
    # Beside its place, to be moved there when it is complete.
    with tempfile.TemporaryDirectory(prefix=".demo-", dir=root.absolute().parent) as folder:
        made = generate(PRESET, Path(folder) / "facility", seed=_SEED, progress=progress)
        ingest_simulated(made, Path(folder) / "lake", progress=progress)
        if layout.is_lake(root):
            shutil.rmtree(root)
        (Path(folder) / "lake").rename(root)
    return root


def tour(lake: Lake) -> Iterator[tuple[str, str, Answer]]:
    """Four questions in words, each with the command that asks it and its answer here."""
    if (found := first_verdict(lake)) is not None:
        job, verdict = found
        yield f"Why was job {job} slow?", f"why {job}", verdict
    yield "Is a server or target unhealthy?", "health", ask("health", lake)
    first = dt.datetime.fromisoformat(f"{PRESET.first_day}T00:00Z")
    last = first + dt.timedelta(PRESET.days)
    period_ns = (int(first.timestamp()) * NS, int(last.timestamp()) * NS)
    command = f"who --from {first:%F} --to {last:%F}"
    yield "Who slowed others?", command, ask("who", lake, period_ns=period_ns)
    yield "Where would a fix help most?", "triage", ask("triage", lake)


def first_verdict(lake: Lake) -> tuple[str, Answer] | None:
    """Job id and verdict of a slow job: of those slowest against similar runs, the first that is explained."""
    try:
        slowest = cast(RunsOutcome, ask("runs", lake, {"order": "slowest", "most": _MOST_TRIED}).result).runs
    except DataUnavailable:
        return None
    for run in slowest:
        answer = ask("why", lake, {"job": str(run.job_id)})
        if isinstance(answer.result, WhyOutcome) and answer.result.kind not in ("unknown", "unexplained"):
            return str(run.job_id), answer
    return None


# Half a MiB read and written a second, 16 MiB of space: not noticeable, and a baseline is there after 15 seconds.
PROBE_OPTIONS: Final = ("--period", "500ms", "--request", "256KiB", "--file-size", "16MiB", "--pool", "20")
_PATIENCE_SECONDS: Final = 20.0
_PR_SET_PDEATHSIG: Final = 1  # prctl(2)


class Child:
    """A command of ours in a session of its own, so that Ctrl-C reaches it only through us."""

    def __init__(self, name: str, arguments: Sequence[str], niceness: int = 0) -> None:
        self.name = name
        # A file, not a pipe: it is read after the child ends, and a full pipe would stop the child.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `wait`

        def before_exec() -> None:
            """Run in the child before exec: if this process is killed, the kernel kills the child, and an agent's own
            children notice and tidy up. Not SIGTERM: the kernel sends it again as each thread of this process ends,
            and an agent that is asked twice waits for nothing."""
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where a shell started us in the background
            os.nice(niceness)

        self.process = subprocess.Popen(
            [sys.executable, "-m", "ioweather", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            start_new_session=True,
            preexec_fn=before_exec,
        )

    def complaint(self) -> str:
        """The last line of its error output if it failed; else empty."""
        if not self.process.poll():
            return ""
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return f"{self.name}: {lines[-1] if lines else f'exit code {self.process.returncode}'}"

    def ask_to_stop(self) -> None:
        """Send SIGINT, at which every command tidies up."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def wait(self, until: float) -> None:
        """Wait for the end until this time of the monotonic clock, then kill."""
        try:
            self.process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._said.close()


class Here(NamedTuple):
    """What `up` runs: children that measure a directory, and the spool of its probe."""

    target: Path
    spool: Path
    children: Sequence[Child]


@contextmanager
def measuring(lake: Path, demo: Path, target: Path | None = None) -> Iterator[Here]:
    """Run probes for as long as the block lasts, and make the demonstration; then stop them and remove their files."""
    place = target.absolute() if target is not None else writable_place()
    # The default spool, so that `ioweather now` finds it; another one next to it if an agent uses that.
    usual = default_spool_dir()
    try:
        taken = not read_status(usual).is_stale(now_ns())
    except IoweatherError:
        taken = False
    own = usual.with_name(f"{usual.name}-up") if taken else usual
    block_spool = usual.with_name(f"{usual.name}-up-block")
    children = [
        Child("probe", ("probe", str(place), *PROBE_OPTIONS, "--lake", str(lake), "--spool", str(own))),
        Child("block devices", ("agent", "run", "block", "--lake", str(lake), "--spool", str(block_spool))),
    ]
    if not layout.is_lake(demo):  # it computes for half a minute: the probe must not notice
        children.append(Child("demonstration", ("demo", "--out", str(demo)), niceness=19))
    try:
        yield Here(place, own, children)
    finally:
        for child in children:
            child.ask_to_stop()
        until = time.monotonic() + _PATIENCE_SECONDS
        for child in children:
            child.wait(until)


def writable_place() -> Path:
    """This directory if it can be written, else the home directory; raises UsageError if neither can."""
    for place in (Path.cwd(), Path.home()):
        if os.access(place, os.W_OK | os.X_OK):
            return place
    raise UsageError(f"{Path.cwd()} is not writable.", hint="Change to a writable directory, or specify one.")
