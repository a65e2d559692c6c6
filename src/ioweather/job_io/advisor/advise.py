"""Applies all rules to one run, ranks the patterns by the seconds they cost, and words the advice."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Final

import numpy as np

from ioweather.core.outcomes import AdviceItem, JobOutcome, WhyOutcome
from ioweather.core.results import Answer, Estimate, Exhibit, Fact, FactGroup, Finding
from ioweather.core.units import MIB, format_seconds
from ioweather.job_io.advisor import parallel_rules as parallel
from ioweather.job_io.advisor import request_rules as requests
from ioweather.job_io.advisor.profile import LEVEL, Advice, Rule, profile_of
from ioweather.job_io.view import JobView, as_one_run

TITLE: Final = "Worth changing"
HOW: Final = "docs/reference/advice.md"
MOST_SHOWN: Final = 3
_MOST_NAMED: Final = 3
# For each property of a run that can change: the direction that costs time, the rules that model it, and the threshold
# from which a usual value means that similar runs do not have the pattern at all.
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
    """Add advice to an answer. The verdict stays the same."""
    advised, result = advise(view), answer.result
    if isinstance(result, WhyOutcome):
        advised = priced(advised, result)
    if isinstance(result, WhyOutcome) and result.kind in ("unexplained", "unknown"):
        answer = replace(answer, headline=answer.headline.removesuffix(".") + _by_the_model(result, advised) + ".")
    return advised_answer(answer, advised)


def priced(advised: Advised, result: WhyOutcome) -> Advised:
    """Return the advice for the system's usual state: without seconds lost to the system, and where only this run has
    a pattern, with no more than brings it to the usual time."""
    part, usual = result.seconds.system, result.seconds.usual
    if result.kind in ("system", "both") and part is not None and part.value is not None:
        advised = advised.without(part.value)
    if usual is None or usual.value is None:
        return advised
    advised = advised.at_most((advised.io_seconds or 0.0) - usual.value, _rules_of(result, only_here=True))
    return replace(advised, at_usual_speed=True)


def _by_the_model(result: WhyOutcome, advised: Advised) -> str:
    """Return a clause with the seconds that the advisor's models give for the run's change; empty without any.

    It is for runs whose change no other run has. A pattern of all similar runs does not explain a slower run.
    """
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
    """Rules that model the run's changes; `only_here`: only changes to patterns that similar runs do not have."""
    found: set[str] = set()
    for change in result.changed:
        way, rules, free = _RULES_OF_CHANGE.get(change.name, (0, (), None))
        is_free = free is not None and (free - change.usual) * way >= 0
        if (change.value - change.usual) * way > 0 and (is_free or not only_here):
            found.update(rules)
    return found


def advised_answer(answer: Answer, advised: Advised, *, brief: bool = False) -> Answer:
    """Add advice to facts, findings, exhibits and result; `brief`: one line for each advice."""
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
    """Facts of the advice above the floor: seconds, interval, model, and the lines to type."""
    shown = advised.worth[:MOST_SHOWN]
    if not shown or advised.io_seconds is None:
        return ()
    facts = [fact for advice in shown for fact in _facts(advice, brief)]
    facts.append(Fact("advice_how", "  before, after", "", note=f"{HOW}#{shown[0].name}"))
    title = f"{TITLE} (each alone"
    if len(advised.worth) > 1:
        title += f"; all together {format_seconds(advised.together_seconds)} of {format_seconds(advised.io_seconds)}"
    speed = "at the usual speed" if advised.at_usual_speed else "at the speed of this run"
    return (FactGroup("advice", f"{title}; {speed})", tuple(facts)),)


def brief_lines(advised: Advised) -> int:
    """Return the number of screen lines of the brief form."""
    groups = advice_facts(advised, brief=True)
    return sum(len(group.facts) + 2 for group in groups) + 2 * len(list(advice_findings(advised)))


def _facts(advice: Advice, brief: bool) -> Iterator[Fact]:
    promise = advice.promise
    value = advice.seconds if promise.tried else f"up to {format_seconds(advice.most_seconds)}"
    note = "".join(advice.fix_lines[:1]) if brief else advice.evidence
    yield Fact(advice.name, advice.headline, value, "seconds" if promise.tried else "text", note=note)
    note = "none: no such change was measured yet, so nothing is promised"
    if promise.tried:
        least, most = format_seconds(promise.low), format_seconds(promise.high)
        note = f"{least} to {most}; {promise.pairs} pairs, {promise.of_rule} of this rule"
    yield Fact(f"{advice.name}_interval", "  90% interval", "", note=note)
    if not brief:
        yield Fact(f"{advice.name}_model", "  model", "", note=advice.model)
        for number, line in enumerate(advice.fix_lines, 1):
            yield Fact(f"{advice.name}_fix_{number}", "  change to", "", note=line)


def advice_findings(advised: Advised) -> Iterator[Finding]:
    """Findings on advice that is not shown: further advice, and patterns below the floor.

    For incomplete logs no pattern is called cheap, since their counters are lower bounds.
    """
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
    """Return all patterns as an exhibit, for the page and for programs."""
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


_MODULES: Final = {"parallel": parallel, "requests": requests}


def _rules() -> tuple[Rule, ...]:
    """Read the rules from rules.toml; the function of a rule's name finds the pattern.

    Rules of equal cost are shown in the order of that file.
    """
    text = files("ioweather.job_io.advisor").joinpath("rules.toml").read_text("utf-8")
    return tuple(
        Rule(name, look=getattr(_MODULES[entry.pop("module")], name), **entry)
        for name, entry in tomllib.loads(text).items()
    )


RULES: Final = _rules()

# Advice that saves less than these seconds, or less than this share of the run, is not given.
FLOOR_SECONDS: Final = 1.0
FLOOR_SHARE: Final = 0.01


@dataclass(frozen=True)
class Advised:
    """All patterns of a run, the costliest first. `io_seconds` is None if the log has no times.

    `as_one`: the runs are processes without MPI, treated as one run. `incomplete`: some files have no record, so that
    seconds are lower bounds. `at_usual_speed`: seconds are those of a run at the system's usual state.
    """

    patterns: tuple[Advice, ...]
    io_seconds: float | None
    run_seconds: float | None
    floor_seconds: float
    runs: int = 1
    as_one: bool = False
    incomplete: bool = False
    at_usual_speed: bool = False

    @property
    def worth(self) -> tuple[Advice, ...]:
        return tuple(advice for advice in self.patterns if advice.matters)

    @property
    def below(self) -> tuple[Advice, ...]:
        return tuple(advice for advice in self.patterns if not advice.matters)

    @property
    def together_seconds(self) -> float:
        """Seconds that all changes save together, never more than the I/O time.

        Rules of one part model the same seconds: the largest counts. Each part saves its share of the seconds that the
        others leave.
        """
        spent = self.io_seconds or 0.0
        left = 1.0
        for part in {advice.part for advice in self.worth}:
            largest = max(advice.seconds for advice in self.worth if advice.part == part)
            left *= 1.0 - min(1.0, largest / spent) if spent > 0 else 1.0
        return spent * (1.0 - left)

    def without(self, seconds: float) -> Advised:
        """Scale the savings to the I/O time without these seconds, which the system cost."""
        if not self.io_seconds or not seconds > 0:
            return self
        share = max(0.0, 1.0 - seconds / self.io_seconds)
        patterns = tuple(self._scaled(advice, share) for advice in self.patterns)
        return replace(self, patterns=patterns, io_seconds=self.io_seconds * share)

    def at_most(self, seconds: float, rules: Collection[str]) -> Advised:
        """Limit the savings of these rules."""
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


def advise(view: JobView) -> Advised:
    """Return the patterns of the job's run with most I/O time; processes without MPI are one run."""
    one = as_one_run(view)
    profile = profile_of(one, one.main_run)
    floor = max(FLOOR_SECONDS, FLOOR_SHARE * (profile.run_seconds or 0.0))
    # Counters of a damaged log may be anything: costs that are not finite count as 0.
    with np.errstate(all="ignore"):
        rules = () if profile.sums_only else RULES
        seen = [advice for rule in rules if (advice := rule.advice(profile)) is not None]
    ranked = sorted(seen, key=lambda advice: (-advice.seconds, -advice.most_seconds))
    return Advised(
        patterns=tuple(replace(a, matters=a.most_seconds >= floor and a.most_seconds > 0) for a in ranked),
        io_seconds=profile.io_seconds,
        run_seconds=profile.run_seconds,
        floor_seconds=floor,
        runs=view.logs_of_job,
        as_one=one.separate,
        incomplete=profile.incomplete,
    )
