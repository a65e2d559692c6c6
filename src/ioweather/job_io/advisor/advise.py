"""All rules on one run: what was seen, ranked by seconds lost, and from which cost on it is worth saying."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Final

import numpy as np

from ioweather.core.contracts import Param
from ioweather.core.results import Answer, Estimate, Exhibit, Fact, FactGroup, Finding
from ioweather.core.run_outcomes import AdviceItem, JobOutcome, WhyOutcome
from ioweather.core.units import MIB, format_seconds
from ioweather.job_io.advisor import parallel_rules as parallel
from ioweather.job_io.advisor import request_rules as requests
from ioweather.job_io.advisor.profile import LEVEL, Advice, Profile, Rule, profile_of
from ioweather.job_io.view import JobView, as_one_run

TITLE: Final = "Worth changing"
HOW: Final = "docs/reference/advice.md"
MOST_SHOWN: Final = 3
_MOST_NAMED: Final = 3
# Which way a change of the pattern costs time, the rules that reckon with it, and from where on a usual value says that
# similar runs do not have the pattern at all.
_RULES_OF_CHANGE: Final = {
    "request_bytes": (-1, ("small_requests", "unbuffered", "small_files", "no_mpiio"), MIB),
    "file_count": (1, ("many_files", "file_per_process", "small_files", "metadata_storm"), None),
    "io_rank_count": (-1, ("rank_zero", "subset"), None),
    "seek_share": (1, ("seeks", "random_access"), 0.1),
    "collective_share": (-1, ("no_collectives", "no_mpiio"), 0.9),
    "random_share": (1, ("random_access",), 0.1),
    "sync_share": (1, ("fsync_storm",), 0.1),
}


def with_advice(answer: Answer, view: JobView) -> Answer:
    """The answer, and beside it what the run could change. The verdict stays what it is."""
    advised, result = advise(view), answer.result
    if isinstance(result, WhyOutcome):
        advised = priced(advised, result)
    if isinstance(result, WhyOutcome) and result.kind in ("unexplained", "unknown"):
        answer = replace(answer, headline=answer.headline.removesuffix(".") + _by_the_model(result, advised) + ".")
    return advised_answer(answer, advised)


def priced(advised: Advised, result: WhyOutcome) -> Advised:
    """The advice at the system's usual state: seconds that the system took are not promised, and to undo what only this
    run does brings no more than the usual time."""
    part, usual = result.seconds.system, result.seconds.usual
    if result.kind in ("system", "both") and part is not None and part.value is not None:
        advised = advised.without(part.value)
    if usual is None or usual.value is None:
        return advised
    advised = advised.at_most((advised.io_seconds or 0.0) - usual.value, _rules_of(result, only_here=True))
    return replace(advised, at_usual_speed=True)


def _by_the_model(result: WhyOutcome, advised: Advised) -> str:
    """Where other runs do not say what the run's change costs, a rule that looks at what changed may. What all similar
    runs do as well does not explain why this one was slower."""
    usual = result.seconds.usual
    if usual is None or usual.value is None or result.io_seconds is None or result.harm_seconds is None:
        return ""
    beyond = result.io_seconds - usual.value
    rules = _rules_of(result)
    fitting = [advice for advice in advised.worth if advice.name in rules]
    if beyond < result.harm_seconds or not fitting:
        return ""
    largest = max(fitting, key=lambda advice: advice.seconds)
    explains = format_seconds(min(largest.seconds, beyond))
    return (
        f"; by the advisor's model its change ({largest.headline}) may explain {explains} of the "
        f"{format_seconds(beyond)} beyond the usual"
    )


def _rules_of(result: WhyOutcome, *, only_here: bool = False) -> set[str]:
    """Rules that reckon with what the run changed; `only_here`: of what similar runs do not do at all."""
    found: set[str] = set()
    for change in result.changed:
        way, rules, free = _RULES_OF_CHANGE.get(change.name, (0, (), None))
        is_free = free is not None and (free - change.usual) * way >= 0
        if (change.value - change.usual) * way > 0 and (is_free or not only_here):
            found.update(rules)
    return found


def advised_answer(answer: Answer, advised: Advised, *, brief: bool = False) -> Answer:
    """`brief`: one line for each advice, where the screen has room for no more."""
    exhibits = (*answer.exhibits, advice_exhibit(advised)) if advised.patterns else answer.exhibits
    facts = (*answer.facts, *advice_facts(advised, brief=brief))
    result = answer.result
    if isinstance(result, JobOutcome):
        result = replace(result, seen=_items(advised.patterns), worth=_items(advised.worth))
    elif isinstance(result, WhyOutcome):
        result = replace(result, worth=_items(advised.worth))
    findings = (*answer.findings, *advice_findings(advised))
    return replace(answer, facts=facts, exhibits=exhibits, findings=findings, result=result)


def _items(patterns: tuple[Advice, ...]) -> tuple[AdviceItem, ...]:
    return tuple(
        AdviceItem(a.name, a.dimension, a.evidence, a.seconds, a.promise.low, a.promise.high, a.fix_lines, a.headline)
        for a in patterns
    )


def advice_facts(advised: Advised, *, brief: bool = False) -> tuple[FactGroup, ...]:
    """One line with the seconds, one with their interval, one for each line to type; none below the floor."""
    shown = advised.worth[:MOST_SHOWN]
    if not shown or advised.io_seconds is None:
        return ()
    facts = [fact for advice in shown for fact in (_brief(advice) if brief else _lines(advice))]
    facts.append(Fact("advice_how", "  before, after", "", note=f"{HOW}#{shown[0].name}"))
    title = f"{TITLE} (each alone"
    if len(advised.worth) > 1:
        title += f"; all together {format_seconds(advised.together_seconds)} of {format_seconds(advised.io_seconds)}"
    speed = "at the usual speed" if advised.at_usual_speed else "at the speed of this run"
    return (FactGroup("advice", f"{title}; {speed})", tuple(facts)),)


def brief_lines(advised: Advised) -> int:
    """Lines of the screen that the brief form takes."""
    groups = advice_facts(advised, brief=True)
    return sum(len(group.facts) + 2 for group in groups) + 2 * len(list(advice_findings(advised)))


def _interval(advice: Advice) -> Fact:
    promise = advice.promise
    note = "none: no such change was measured yet, so nothing is promised"
    if promise.tried:
        least, most = format_seconds(promise.low), format_seconds(promise.high)
        note = f"{least} to {most}; {promise.pairs} pairs, {promise.of_rule} of this rule"
    return Fact(f"{advice.name}_interval", "  90% interval", "", note=note)


def _seconds(advice: Advice, note: str) -> Fact:
    value = advice.seconds if advice.promise.tried else f"up to {format_seconds(advice.most_seconds)}"
    return Fact(advice.name, advice.headline, value, "seconds" if advice.promise.tried else "text", note=note)


def _brief(advice: Advice) -> Iterator[Fact]:
    note = advice.fix_lines[0] if advice.fix_lines else ""
    yield _seconds(advice, note)
    yield _interval(advice)


def _lines(advice: Advice) -> Iterator[Fact]:
    yield _seconds(advice, advice.evidence)
    yield _interval(advice)
    yield Fact(f"{advice.name}_model", "  model", "", note=advice.model)
    for number, line in enumerate(advice.fix_lines, 1):
        yield Fact(f"{advice.name}_fix_{number}", "  change to", "", note=line)


def advice_findings(advised: Advised) -> Iterator[Finding]:
    """What was seen and is not worth it, in one sentence. Partial counters allow no such comfort."""
    more = len(advised.worth) - MOST_SHOWN
    if more > 0:
        yield Finding(f"{more} more to change, each for less than those shown: --json has them.", name="more_advice")
    below = advised.below
    if not below:
        return
    count = len(below)
    names = ", ".join(advice.headline for advice in below[:_MOST_NAMED]) + (", ..." if count > _MOST_NAMED else "")
    seen = f"{count} {'more ' if advised.worth else ''}pattern{'s' if count > 1 else ''} seen ({names})"
    if advised.io_seconds is None:
        text = f"{seen}: the log has no I/O times, so what they cost is unknown."
        yield Finding(text, "undecided", "patterns_of_unknown_cost")
        return
    largest = format_seconds(max(advice.most_seconds for advice in below))
    if advised.incomplete:
        text = f"{seen}: the costliest takes at least {largest}; files without a record may add to that."
        yield Finding(text, "undecided", "patterns_of_partial_log")
        return
    run = f" of a run of {format_seconds(advised.run_seconds)}" if advised.run_seconds else ""
    cost = "none costs" if count > 1 else "it does not cost"
    yield Finding(f"{seen}: {cost} more than {largest}{run}: not worth changing.", name="patterns_not_worth_changing")


def advice_exhibit(advised: Advised) -> Exhibit:
    """Everything that was seen, for the page and for programs; the screen has its part in the facts."""
    estimates = tuple(
        Estimate(a.headline, a.seconds, "seconds", a.promise.low, a.promise.high, LEVEL, a.promise.pairs, a.model)
        for a in advised.patterns
    )
    findings = tuple(
        Finding(f"{a.headline}: {a.evidence}. Change to: {' '.join(a.fix_lines)}", "note", a.name)
        for a in advised.patterns
    )
    caveats = [
        f"Each figure is what this change alone wins. Below {format_seconds(advised.floor_seconds)} none is advised.",
        "Intervals are those of changes made before, real and simulated; they hold as far as this run is like them.",
        "It says what the log's own times allow; it is no verdict on this run against others.",
    ]
    if advised.incomplete:
        caveats.append("Some files have no record: seconds are lower bounds, and processes are not compared.")
    if advised.as_one:
        caveats.append(f"The job's {advised.runs} logs of single processes were looked at as one run.")
    elif advised.runs > 1:
        caveats.append(f"Of the job's {advised.runs} runs the one with most I/O time was looked at.")
    title = "Seen, and worth changing"
    return Exhibit("advice", title, estimates=estimates, findings=findings, caveats=tuple(caveats))


# Every rule, in the order in which those that cost the same are told: its words are in rules.toml, and the function of
# its name looks for the pattern.
_MODULES: Final = {"parallel": parallel, "requests": requests}


def _rules() -> tuple[Rule, ...]:
    text = files("ioweather.job_io.advisor").joinpath("rules.toml").read_text("utf-8")
    return tuple(
        Rule(name, look=getattr(_MODULES[said.pop("module")], name), **said)
        for name, said in tomllib.loads(text).items()
    )


RULES: Final = _rules()


FLOOR_SECONDS: Final = Param("floor_seconds", "Advice that saves less is not given.", "float", 1.0)
FLOOR_SHARE: Final = Param("floor_share", "Nor advice that saves less than this share of the run.", "float", 0.01)


@dataclass(frozen=True)
class Advised:
    """All patterns that were seen, the costliest first. `io_seconds` is None where the log has no times."""

    patterns: tuple[Advice, ...]
    io_seconds: float | None
    run_seconds: float | None
    floor_seconds: float
    runs: int = 1
    # The runs are processes without MPI, looked at as one run.
    as_one: bool = False
    # Some files have no record: what is said is a lower bound.
    incomplete: bool = False
    # Seconds are those that a run saves at the system's usual state, not at that of this run.
    at_usual_speed: bool = False

    @property
    def worth(self) -> tuple[Advice, ...]:
        return tuple(advice for advice in self.patterns if advice.matters)

    @property
    def below(self) -> tuple[Advice, ...]:
        return tuple(advice for advice in self.patterns if not advice.matters)

    @property
    def together_seconds(self) -> float:
        """All changes that are worth it at once. Those of one part look at the same seconds: the largest counts. Parts
        follow each other: each saves its share of what the others leave. Never more than the I/O took."""
        spent = self.io_seconds or 0.0
        left = 1.0
        for part in {advice.part for advice in self.worth}:
            largest = max(advice.seconds for advice in self.worth if advice.part == part)
            left *= 1.0 - min(1.0, largest / spent) if spent > 0 else 1.0
        return spent * (1.0 - left)

    def without(self, seconds: float) -> Advised:
        """The same at the system's usual state: of the I/O time these seconds are the system's, and no change of the
        run's own gets them back. What is left is saved in proportion."""
        if not self.io_seconds or not seconds > 0:
            return self
        share = max(0.0, 1.0 - seconds / self.io_seconds)
        patterns = tuple(self._scaled(advice, share) for advice in self.patterns)
        return replace(self, patterns=patterns, io_seconds=self.io_seconds * share)

    def at_most(self, seconds: float, rules: Collection[str]) -> Advised:
        """The same, where these rules promise no more than so many seconds."""
        most = max(seconds, 0.0)
        patterns = tuple(
            self._scaled(advice, most / advice.seconds) if advice.name in rules and advice.seconds > most else advice
            for advice in self.patterns
        )
        return replace(self, patterns=patterns)

    def _scaled(self, advice: Advice, share: float) -> Advice:
        return replace(
            advice,
            model_seconds=advice.model_seconds * share,
            promise=advice.promise.scaled(share),
            matters=advice.matters and advice.most_seconds * share >= self.floor_seconds,
        )


def advise(view: JobView, *, floor_seconds: float | None = None, floor_share: float | None = None) -> Advised:
    """What the job's run with most I/O time could change; processes without MPI are one run. The floor is the larger
    of seconds and share of the run."""
    one = as_one_run(view)
    profile = profile_of(one, one.main_run)
    advised = advise_run(profile, floor_seconds=floor_seconds, floor_share=floor_share)
    return replace(advised, runs=view.logs_of_job, as_one=one.separate)


def advise_run(profile: Profile, *, floor_seconds: float | None = None, floor_share: float | None = None) -> Advised:
    least = _default(FLOOR_SECONDS) if floor_seconds is None else floor_seconds
    share = _default(FLOOR_SHARE) if floor_share is None else floor_share
    floor = max(least, share * (profile.run_seconds or 0.0))
    # Counters of a damaged log may hold anything: what is not finite costs nothing.
    with np.errstate(all="ignore"):
        rules = () if profile.sums_only else RULES
        seen = [advice for rule in rules if (advice := rule.advice(profile)) is not None]
    ranked = sorted(seen, key=lambda advice: (-advice.seconds, -advice.most_seconds))
    patterns = tuple(replace(a, matters=a.most_seconds >= floor and a.most_seconds > 0) for a in ranked)
    return Advised(patterns, profile.io_seconds, profile.run_seconds, floor, incomplete=profile.incomplete)


def _default(param: Param) -> float:
    value = param.default
    assert isinstance(value, float)
    assert math.isfinite(value)
    return value
