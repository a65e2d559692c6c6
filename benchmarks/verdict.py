"""How good the verdict is on real runs with known causes: leave one out, by the way that `ioweather why` goes.

    python benchmarks/verdict.py ../shared/data/{causes,contention,testbed,testbed3}
    python benchmarks/verdict.py --half 1 ../shared/data/testbed     # those whose id's hash is odd

A folder holds Darshan logs, samples of the devices, and truth.json. It is read into a lake of its own, and every run is
asked about there. Truth is by harm, not by exposure. In `causes` and `contention`: B is the median time of runs in
which nothing was planted, h = max(0.15 B, 2 MAD of these); a run in small requests has J = median of such runs without
background - B; what background adds is S; slow without either is unexplained. In `testbed` the labels are those of
truth.json, at 15%: runs with a hidden incident are unexplained, or 'you' where their own change alone costs 15%;
`noise` and `grow` (twice the bytes) are beside, `layout` left out. Unknown counts as wrong unless said otherwise.
The peers are 'always normal', and 'slow is the system's'.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import itertools
import json
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

from ioweather.core.results import Answer, to_jsonable
from ioweather.diagnosis.blame import Slowed, blame
from ioweather.diagnosis.blame_query import read_slowed_run
from ioweather.diagnosis.similar_runs import read_conditions, similar_runs
from ioweather.diagnosis.verdict import KINDS, LEAST_PROBABILITY, Verdict
from ioweather.diagnosis.verdict_wording import explain, judge_among_measures, with_culprits, with_usual_of_verdict
from ioweather.job_io.outcomes import WhyOutcome
from ioweather.job_io.view import view_of_log
from ioweather.lake.lake import Snapshot, open_lake
from ioweather.ui.cli.main import run as command

HARM = 1.15


@dataclass
class Judged:
    name: str
    truth: str
    said: Verdict
    half: int
    seconds: float
    run: dict[str, Any] | None = None
    words: str = ""
    culprits: tuple[int | None, ...] = ()
    ranked: int | None = None  # the job that cost most
    loudest: int | None = None  # the peer: the job that moved most bytes on the run's targets


@dataclass(frozen=True)
class Health:
    """Components that were named in a set, those of them that were sick then, and episodes found of all."""

    named: int
    right: int
    found: int
    episodes: int


def made_lake(folder: Path, place: Path, *, layout: bool = True) -> Path:
    """The folder's files as a site would read them; `layout`: logs of the testbed name the targets of files."""
    lake = place / folder.name
    common = ["ingest", "--lake", str(lake), "--raw", "--workers", "1"]
    if (folder / "targets_map.toml").exists():
        logs = logs_of(folder)[0].parent if layout else folder / "logs"
        lake.mkdir(parents=True)
        (lake / "facility.toml").write_bytes((folder / "facility.toml").read_bytes())
        assert command([*common, str(logs), str(folder / "probe"), str(folder / "jobs.txt")]) == 0
        packed = folder / "diskstats.log.gz"
        if packed.exists():  # as a site has them
            unpacked = place / "diskstats.log"
            unpacked.write_bytes(gzip.decompress(packed.read_bytes()))
            assert command([*common, str(unpacked)]) == 0
            return lake
        sql = place / "targets.sql"
        sql.write_text(select_of(tomllib.loads((folder / "targets_map.toml").read_text())))
        as_series = ["--as", "series", "--select", str(sql), str(folder / "targets.csv")]
        assert command([*common, *as_series]) == 0
    else:
        assert command([*common, *map(str, sorted(folder.glob("*.darshan"))), str(folder / "diskstats.log")]) == 0
    return lake


def select_of(mapping: dict[str, Any]) -> str:
    """The SELECT for a table of counters that a mapping of columns describes."""
    parts = []
    for row in mapping["rows"]:
        columns = {**mapping["columns"], **row}
        cells = (
            f"{c['from']} AS {name}" if "from" in c else f"'{c['value']}' AS {name}" for name, c in columns.items()
        )
        parts.append(f"SELECT {', '.join(cells)} FROM input")
    return " UNION ALL ".join(parts)


def logs_of(folder: Path) -> list[Path]:
    inner = next((each for name in ("logs_layout", "logs") if (each := folder / name).exists()), folder)
    return sorted(path for path in inner.glob("*.darshan") if not path.stem.endswith("_uname"))


def judged_runs(folder: Path, place: Path) -> list[Judged]:
    return judged_set(folder, place)[0]


def judged_set(folder: Path, place: Path) -> tuple[list[Judged], Health]:
    truth = json.loads((folder / "truth.json").read_text())
    began, cpu = time.perf_counter(), time.process_time()
    found: list[tuple[str, int, int, Verdict]] = []
    answers: dict[int, Answer] = {}
    ranks: dict[int, tuple[int | None, int | None]] = {}
    known = {run["job_id"] for run in truth["runs"]} if isinstance(truth, dict) else None
    with open_lake(made_lake(folder, place)).snapshot() as snapshot:
        for log in logs_of(folder):
            view = view_of_log(log, "keep")
            job = int(view.applications.array("job_id")[0])
            if known is None or job in known:
                similar = similar_runs(view, snapshot)
                state = read_conditions(similar, snapshot)
                said = judge_among_measures(state)
                slowed = read_slowed_run(snapshot, similar, state.filesystem)
                answers[job] = with_culprits(explain(view, state), slowed)
                ranks[job] = ranked_and_loudest(slowed, answers[job])
                found.append((log.stem, job, int(view.applications.array("start_ns")[0]), said))
        health = health_of(snapshot, truth)
    wall, busy = (each / len(found) for each in (time.perf_counter() - began, time.process_time() - cpu))
    spent = f"{wall:.2f} s, processor {busy:.2f} s"
    print(f"\n{folder.name}: {len(found)} runs, each {spent} with its share of reading")
    if isinstance(truth, dict):
        labels = {run["job_id"]: testbed_label(run) for run in truth["runs"]}
        planted = {run["job_id"]: run for run in truth["runs"]}
        return [
            Judged(
                str(job),
                labels[job],
                said,
                half_of(str(job)),
                said.io_seconds,
                planted[job],
                " ".join([answers[job].headline, *(finding.text for finding in answers[job].findings)]),
                tuple(each.job_id for each in getattr(answers[job].result, "culprits", ())),
                *ranks[job],
            )
            for _, job, _, said in found
        ], health
    rows = [next(t for t in truth if t["start_ns"] <= start <= t["end_ns"]) for _, _, start, _ in found]
    labels_by_harm = harm_labels(np.array([said.io_seconds for *_, said in found]), rows)
    return [
        Judged(name, label, said, half_of(name), said.io_seconds)
        for (name, _, _, said), label in zip(found, labels_by_harm, strict=True)
    ], health


def ranked_and_loudest(slowed: Slowed, answer: Answer) -> tuple[int | None, int | None]:
    """(job that cost most, job that moved most bytes on the run's targets)."""
    assert isinstance(answer.result, WhyOutcome)
    blamed = blame(with_usual_of_verdict(slowed, answer.result))
    loud = max(slowed.suspects, key=lambda each: each.read_bytes + each.write_bytes, default=None)
    return (blamed[0].suspect.party.job_id if blamed else None, loud.party.job_id if loud else None)


def health_of(snapshot: Snapshot, truth: Any) -> Health:
    """Stored incidents against the planted episodes of sick targets (a slow disk, a stalled server)."""
    events = list(snapshot.frame("events", ("component", "start_ns", "end_ns"), {"kind": "component_health"}).records())
    planted = [] if isinstance(truth, list) else [e for e in truth["episodes"] if str(e["kind"]).startswith("sick")]

    def fits(event: dict[str, Any], episode: dict[str, Any]) -> bool:
        during = event["start_ns"] < episode["end_ns"] and (event["end_ns"] or 2**62) > episode["start_ns"]
        name = str(event["component"])
        return during and name.endswith((f"brick{episode['target']}", f"OST{int(episode['target']):04x}"))

    right = sum(any(fits(event, episode) for episode in planted) for event in events)
    found = sum(any(fits(event, episode) for event in events) for episode in planted)
    return Health(len(events), right, found, len(planted))


def half_of(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 2


def testbed_label(run: dict[str, Any]) -> str:
    label = str(run["label"])
    if run["own_change"] == "grow" and label in ("you", "both"):
        return "grow"
    if run["planted"] in ("hidden", "mount") and "hidden_how" not in run:
        return {"system": "unexplained", "both": "you"}.get(label, label)
    if run.get("hidden_how") and run["ratio"] >= HARM and label not in ("noise", "layout", "normal"):
        return "unexplained" if run["own_factor"] < HARM else "you"
    return label


def harm_labels(seconds: np.ndarray, truth: list[dict[str, Any]]) -> list[str]:
    size = np.array([t.get("transfer", "1m") for t in truth])
    kind = np.array([t.get("kind", "system" if t["background_depth"] else "normal") for t in truth])
    quiet = seconds[kind == "normal"]
    base = float(np.median(quiet))
    harm = max(0.15 * base, 2 * float(np.median(np.abs(quiet - base))))
    labels = []
    for i, took in enumerate(seconds):
        alone = float(np.median(seconds[(size == size[i]) & (kind == "you")])) if size[i] != "1m" else base
        own, system = (took - base if kind[i] == "you" else alone - base), took - alone
        system = 0.0 if kind[i] in ("you", "normal") else system
        reached = (system >= harm, own >= harm)
        names = {(True, False): "system", (False, True): "you", (True, True): "both", (False, False): "unexplained"}
        labels.append("normal" if took - base < harm else names[reached])
    return labels


def balanced(runs: list[Judged]) -> float:
    """Mean over the classes there are of the share found."""
    shares = [np.mean([run.said.kind == kind for run in runs if run.truth == kind])
              for kind in KINDS if any(run.truth == kind for run in runs)]  # fmt: skip
    return float(np.mean(shares)) if shares else float("nan")


def table(name: str, runs: list[Judged]) -> None:
    known = [run for run in runs if run.truth in KINDS]
    answered = [run for run in known if run.said.kind != "unknown"]
    right = sum(run.said.kind == run.truth for run in answered)
    accused = [run for run in known if run.said.kind in ("you", "both")]
    wrong = [run for run in accused if run.truth not in ("you", "both")]
    print(f"\n### {name}: {len(known)} runs\n")
    print(
        f"answered {len(answered) / len(known):.3f}; right of the answered {right / max(1, len(answered)):.3f} "
        f"({len(answered) - right} wrong); balanced accuracy, unknown counted as wrong, {balanced(known):.3f}, of the "
        f"answered {balanced(answered):.3f}; accusations {len(accused)}, of these wrong {len(wrong)}\n"
    )
    print(f"| truth | runs | {' | '.join(KINDS)} | unknown |\n|---|---|{'---|' * (len(KINDS) + 1)}")
    for truth in dict.fromkeys((*KINDS, *(run.truth for run in runs))):
        said = Counter(run.said.kind for run in runs if run.truth == truth)
        if said:
            cells = " | ".join(str(said[kind]) for kind in (*KINDS, "unknown"))
            print(f"| {truth} | {sum(said.values())} | {cells} |")


def is_slow(run: Judged) -> bool:
    return run.said.usual is not None and run.seconds - run.said.usual.value >= (run.said.harm_seconds or 0.0)


def share_of(found: int, total: int) -> str:
    return f"{found} of {total} ({found / total:.2f})" if total else "-"


def score_card(sets: dict[str, tuple[list[Judged], Health]]) -> None:
    """One row for each measure, with its baselines, of all sets."""
    print("\n### Score card\n\n| set | measure | ours | baseline |\n|---|---|---|---|")
    for name, (runs, health) in sets.items():
        for measure, ours, peer in measures_of(runs, health):
            print(f"| {name} | {measure} | {ours} | {peer} |")


def measures_of(runs: list[Judged], health: Health) -> Iterator[tuple[str, str, str]]:
    """(measure, ours, baselines) of one set."""
    known = [run for run in runs if run.truth in KINDS]
    answered = [run for run in known if run.said.kind != "unknown"]
    kinds = [kind for kind in KINDS if any(run.truth == kind for run in known)]

    def naive(kind: str) -> float:
        return float(np.mean([("system" if is_slow(run) else "normal") == kind for run in known if run.truth == kind]))

    peers = f"always normal {1 / len(kinds):.3f}; slow is the system's {np.mean([naive(kind) for kind in kinds]):.3f}"
    yield f"balanced accuracy of {len(kinds)} classes, unknown counted as wrong", f"{balanced(known):.3f}", peers
    yield "balanced accuracy, unknown dropped", f"{balanced(answered):.3f}", ""
    normal = sum(run.truth == "normal" for run in known)
    right = sum(run.said.kind == run.truth for run in known)
    yield "right of all", share_of(right, len(known)), f"always normal {normal / len(known):.2f}"
    for kind in kinds:
        mine = [run for run in known if run.truth == kind]
        found = sum(run.said.kind == kind for run in mine)
        yield f"{kind}: found", share_of(found, len(mine)), f"slow is the system's {naive(kind):.2f}"
    accused = [run for run in known if run.said.kind in ("you", "both")]
    slow = [run for run in known if is_slow(run)]
    innocent = [run for run in accused if run.truth not in ("you", "both")]
    peer = sum(run.truth not in ("you", "both") for run in slow)
    yield (
        "accusations that are wrong",
        share_of(len(innocent), len(accused)),
        f"slow is the job's {share_of(peer, len(slow))}",
    )
    sure = [run for run in answered if run.said.probability >= 0.9]
    yield "stated at 90% or more: right", share_of(sum(run.said.kind == run.truth for run in sure), len(sure)), ""
    harmed = [run for run in runs if run.run is not None and run.truth in ("system", "both")]
    beside = [run for run in harmed if run.run["culprits"]]  # type: ignore[index]
    if not beside:
        return
    first, loud, named_one = (
        sum(any(job in run.run["culprits"] for job in jobs(run)) for run in beside)  # type: ignore[index]
        for jobs in (lambda r: [r.ranked], lambda r: [r.loudest], lambda r: r.culprits)
    )
    most = f"most bytes on its targets {share_of(loud, len(beside))}"
    yield "culprit ranked first", share_of(first, len(beside)), most
    yield "culprit named", share_of(named_one, len(beside)), most
    sick = [run for run in harmed if run.run["on_sick_target"]]  # type: ignore[index]
    right = sum(any(name in run.words for name in target_names(run.run)) for run in sick)  # type: ignore[arg-type]
    yield "sick target named in harmed runs", share_of(right, len(sick)), ""
    stalled = [run for run in sick if run.run["sick_how"] == "server"]  # type: ignore[index]
    right = sum(any(name in run.words for name in target_names(run.run)) for run in stalled)  # type: ignore[arg-type]
    yield "of these, a stalled server named", share_of(right, len(stalled)), ""
    yield "health: named components that were sick", share_of(health.right, health.named), ""
    yield "health: sick episodes found", share_of(health.found, health.episodes), ""


def named(runs: list[Judged]) -> None:
    """Sick or loaded targets and culprits that the answer names, of the runs that these harmed."""
    harmed = [run for run in runs if run.run is not None and run.truth in ("system", "both")]
    sick = [run for run in harmed if run.run["on_sick_target"]]  # type: ignore[index]
    right = sum(any(name in run.words for name in target_names(run.run)) for run in sick)  # type: ignore[arg-type]
    beside = [run for run in harmed if run.run["culprits"]]  # type: ignore[index]
    found = sum(any(job in run.run["culprits"] for job in run.culprits) for run in beside)  # type: ignore[index]
    wrong = sum(any(job not in run.run["culprits"] for job in run.culprits) for run in runs if run.run is not None)
    calm = [run for run in runs if run.run is not None and run.run["planted"] == "quiet"]
    names = {name for run in runs if run.run is not None for name in target_names(run.run)}
    invented = sum(any(name in run.words for name in names) for run in calm)
    print(
        f"\nsick target named in {right} of {len(sick)} harmed runs; a target named in {invented} of {len(calm)} quiet "
        f"runs; a true culprit named in {found} of {len(beside)}, an innocent job in {wrong} of {len(runs)} runs"
    )


def target_names(run: dict[str, Any]) -> tuple[str, ...]:
    target = run.get("sick_target")
    return () if target is None else (f"brick{target}", f"OST{int(target):04x}")


def calibration(pairs: list[tuple[Verdict, str]]) -> None:
    """Of verdicts and what is true."""
    judged = [(said, label) for said, label in pairs if said.probabilities]
    p = np.array([said.probability for said, _ in judged])
    right = np.array([said.likeliest == label for said, label in judged])
    print("\n### Reliability, all runs together\n\n| probability | runs | mean | right |\n|---|---|---|---|")
    edges = (0.0, 0.5, LEAST_PROBABILITY, 0.9, 0.99, 1.01)
    for low, high in itertools.pairwise(edges):
        inside = (p >= low) & (p < high)
        if inside.any():
            shares = f"{p[inside].mean():.2f} | {right[inside].mean():.2f}"
            print(f"| {low:.2f} - {min(high, 1):.2f} | {inside.sum()} | {shares} |")
    print(f"\nBrier score of the likeliest: {np.mean((p - right) ** 2):.3f}")
    accused = [(said.probability, label in ("you", "both")) for said, label in judged if said.kind in ("you", "both")]
    sure = [right for probability, right in accused if probability >= 0.9]
    if sure:
        right_count, count = sum(sure), len(sure)
        least = beta.ppf(0.05, right_count, count - right_count + 1) if right_count else 0.0
        print(
            f"accusations stated at 90% or more: {count}, of these right {right_count / count:.2f}; with 95% "
            f"confidence at least {least:.2f} of such runs (Clopper-Pearson)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--half", type=int, choices=(0, 1), help="only runs whose name's hash is even, or odd")
    parser.add_argument("--json", type=Path, help="write every verdict there")
    given = parser.parse_args()
    everything: list[tuple[Verdict, str]] = []
    written: dict[str, Any] = {}
    sets: dict[str, tuple[list[Judged], Health]] = {}
    for folder in given.folders:
        with tempfile.TemporaryDirectory() as place:
            runs, _ = sets[folder.name] = judged_set(folder, Path(place))
        halves = [given.half] if given.half is not None else [None, 0, 1]
        for half in halves:
            table(folder.name + ("" if half is None else f", half {half}"), [r for r in runs if half in (None, r.half)])
        named(runs)
        everything += [(run.said, run.truth) for run in runs if run.truth in KINDS]
        written[folder.name] = {run.name: {"truth": run.truth, "said": to_jsonable(run.said)} for run in runs}
    calibration(everything)
    score_card(sets)
    if given.json:
        given.json.write_text(json.dumps(written, indent=1))


if __name__ == "__main__":
    main()
