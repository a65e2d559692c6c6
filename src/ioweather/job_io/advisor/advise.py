"""Applies all rules to one run, ranks the patterns by the seconds they cost, and words the advice."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Final, TypeVar

import numpy as np

from ioweather.core.results import Answer, Fact, FactGroup, Finding
from ioweather.core.units import MIB, format_seconds
from ioweather.job_io.advisor import parallel_rules, request_rules
from ioweather.job_io.advisor.declared_rules import declared_rule, read_site_advice
from ioweather.job_io.advisor.expected_savings import Advice, Rule
from ioweather.job_io.advisor.profile import profile_of
from ioweather.job_io.outcomes import AdviceItem, JobOutcome, WhyOutcome
from ioweather.job_io.view import JobView, as_one_run

TITLE: Final = "Worth changing"
HOW: Final = "docs/reference/advice.md"
MOST_SHOWN: Final = 3
# From this share of the extra time on, a part of it is shown.
LEAST_RATIO: Final = 0.02
# For each property of a run that can change: the direction that costs time, the rules that model it, and the threshold
# from which a usual value means that similar runs do not have the pattern at all.
_RULES_OF_CHANGE: Final = {
    "request_bytes": (-1, ("small_requests", "unbuffered", "small_files", "no_mpiio"), MIB),
    "seek_share": (1, ("seeks", "random_access"), 0.1),
    "collective_share": (-1, ("no_collectives", "no_mpiio"), 0.9),
    "random_share": (1, ("random_access",), 0.1),
    "sync_share": (1, ("fsync_storm",), 0.1),
}


def with_advice(answer: Answer, view: JobView) -> Answer:
    """Add advice to an answer. The verdict stays the same."""
    advised = advise(view)
    return advised_answer(answer, priced(advised, answer.result) if isinstance(answer.result, WhyOutcome) else advised)


def priced(advised: Advised, result: WhyOutcome) -> Advised:
    """Return the advice for the system's usual state: without seconds lost to the system, and where only this run has
    a pattern, with no more than brings it to the usual time."""
    part, usual = result.seconds.system, result.seconds.usual
    if result.kind == "system" and usual is not None and usual.value is not None:
        advised = advised.without(max(0.0, (advised.io_seconds or 0.0) - usual.value))
    elif result.kind == "both" and part is not None and part.value is not None:
        advised = advised.without(part.value)
    if usual is None or usual.value is None:
        return advised
    advised = advised.at_most((advised.io_seconds or 0.0) - usual.value, _find_rules_of_changes(result))
    return replace(advised, at_usual_speed=True)


def _find_rules_of_changes(result: WhyOutcome) -> set[str]:
    """Return rules that model changes of the run to patterns that similar runs do not have."""
    found: set[str] = set()
    for change in result.changed:
        way, rules, free = _RULES_OF_CHANGE.get(change.name, (0, (), 0.0))
        if (change.value - change.usual) * way > 0 and (free - change.usual) * way >= 0:
            found.update(rules)
    return found


def advised_answer(answer: Answer, advised: Advised) -> Answer:
    """Add advice to facts, findings and result."""
    result = answer.result
    seen, worth = (
        tuple(
            AdviceItem(
                *(a.name, a.dimension, a.evidence, a.seconds, a.saving.low, a.saving.high),
                *(a.fix_lines, a.headline, a.file, a.note),
            )
            for a in patterns
        )
        for patterns in (advised.patterns, advised.worth)
    )
    nothing: list[Finding] = []
    if isinstance(result, JobOutcome):
        result = replace(result, seen=seen, worth=worth)
        if advised.io_seconds and not advised.worth and not advised.incomplete:
            spent, least = format_seconds(advised.io_seconds), format_seconds(advised.floor_seconds)
            text = f"Nothing worth changing: I/O took {spent}, and no known change would save {least} or more."
            nothing.append(Finding(text, name="nothing_to_change"))
    elif isinstance(result, WhyOutcome):
        result = replace(result, worth=worth)
    facts, findings = (*answer.facts, *advice_facts(advised)), (*nothing, *answer.findings)
    return replace(answer, facts=facts, findings=findings, result=result)


def advice_facts(advised: Advised) -> tuple[FactGroup, ...]:
    """Return facts of the advice above the floor: seconds, file, evidence, and the lines to type; then other
    patterns."""
    groups = []
    if advised.shown:
        facts = [fact for advice in advised.shown for fact in _list_advice_lines(advice)]
        facts.append(Fact("advice_how", "  before, after", "", note=f"{HOW}#{advised.shown[0].name}"))
        title = f"{TITLE} (each alone"
        if len(advised.worth) > 1:
            up_to = "" if all(advice.saving.tried for advice in advised.worth) else "up to "
            together = format_seconds(advised.save_together(advised.worth))
            title += f"; together {up_to}{together} of {format_seconds(advised.io_seconds or 0.0)}"
        speed = "at the usual speed" if advised.at_usual_speed else "at the speed of this run"
        groups.append(FactGroup("advice", f"{title}; {speed})", tuple(facts)))
    if others := advised.others:
        title = "Also seen" if advised.shown else "Seen"
        if advised.io_seconds is None:
            title += "; cost unknown, since the log has no I/O times"
        elif advised.incomplete:  # its counters are lower bounds: nothing is called cheap
            title += "; cost unknown, since the log is incomplete"
        elif not any(advice.matters for advice in others):
            title += f", not worth changing (each saves less than {format_seconds(advised.floor_seconds)})"
        facts = [
            Fact(a.name, a.headline, _format_saving(a) if a.matters else "", note=_format_evidence(a)) for a in others
        ]
        groups.append(FactGroup("seen", title, tuple(facts)))
    return tuple(groups)


def _format_evidence(advice: Advice) -> str:
    """Return the evidence, after the name of the file if it is known."""
    return f"{advice.file}: {advice.evidence}" if advice.file else advice.evidence


def _format_saving(advice: Advice) -> str:
    """Return the saving as text; "up to" if no such change was ever measured."""
    up_to = "" if advice.saving.tried else "up to "
    return f"{up_to}{format_seconds(advice.stated_seconds)}"


def _list_advice_lines(advice: Advice) -> Iterator[Fact]:
    """Yield the lines on a pattern: saving, lines to type, note of the site, interval and model."""
    saving = advice.saving
    value, unit = (advice.seconds, "seconds") if saving.tried else (_format_saving(advice), "text")
    yield Fact(advice.name, advice.headline, value, unit, note=_format_evidence(advice))
    for number, line in enumerate(advice.fix_lines, 1):
        yield Fact(f"{advice.name}_fix_{number}", "  change to", "", note=line)
    if advice.note:
        yield Fact(f"{advice.name}_site", "  your site", "", note=advice.note)
    note = "none, because no such change has been measured"
    if saving.tried:
        least, most = format_seconds(saving.low), format_seconds(saving.high)
        note = f"{least} to {most}; from {saving.pairs} measured changes, {saving.of_rule or 'none'} of this rule"
    yield Fact(f"{advice.name}_interval", "  90% interval", "", note=note)
    yield Fact(f"{advice.name}_model", "  model", "", note=advice.model)


def _read_rules() -> tuple[Rule, ...]:
    """Read the rules from rules.toml; the condition of a rule, or the function of its name, finds the pattern.

    Rules of equal cost are shown in the order of that file.
    """
    text = files("ioweather.job_io.advisor").joinpath("rules.toml").read_text("utf-8")
    functions = vars(parallel_rules) | vars(request_rules)
    return tuple(
        declared_rule(name, entry) if "when" in entry else Rule(name, find=functions[f"find_{name}"], **entry)
        for name, entry in tomllib.loads(text).items()
    )


RULES: Final = _read_rules()
# What to do about a pattern, by the name of its rule.
ACTIONS: Final = {rule.name: rule.action for rule in RULES}

# Advice that saves less than these seconds, or less than this share of the run, is not given.
FLOOR_SECONDS: Final = 1.0
FLOOR_SHARE: Final = 0.01


@dataclass(frozen=True)
class Advised:
    """All patterns of a run, the costliest first. `io_seconds` is None if the log has no times.

    `incomplete`: some files have no record, so that seconds are lower bounds. `at_usual_speed`: seconds are those of a
    run at the system's usual state.
    """

    patterns: tuple[Advice, ...]
    io_seconds: float | None
    run_seconds: float | None
    floor_seconds: float
    incomplete: bool = False
    at_usual_speed: bool = False

    @property
    def worth(self) -> tuple[Advice, ...]:
        """The patterns whose saving is above the floor."""
        return tuple(advice for advice in self.patterns if advice.matters)

    @property
    def shown(self) -> tuple[Advice, ...]:
        """The costliest of each dimension: patterns of one dimension mostly have one cause."""
        return one_per_dimension(self.worth)[:MOST_SHOWN]

    @property
    def others(self) -> tuple[Advice, ...]:
        """The costliest pattern of each dimension that is not shown."""
        named = {advice.dimension for advice in self.shown}
        return one_per_dimension(advice for advice in self.patterns if advice.dimension not in named)

    @property
    def together_seconds(self) -> float:
        """Seconds that all changes that were tried save together, never more than the I/O time."""
        return self.save_together([advice for advice in self.worth if advice.saving.tried])

    def save_together(self, chosen: Collection[Advice]) -> float:
        """Return seconds that these changes save together, never more than the I/O time.

        Rules of one part model the same seconds: the largest counts. Each part saves its share of the seconds that the
        others leave.
        """
        spent = self.io_seconds or 0.0
        left = 1.0
        for part in {advice.part for advice in chosen}:
            largest = max(advice.stated_seconds for advice in chosen if advice.part == part)
            left *= 1.0 - min(1.0, largest / spent) if spent > 0 else 1.0
        return spent * (1.0 - left)

    def without(self, seconds: float) -> Advised:
        """Scale the savings to the I/O time without these seconds, which the system cost."""
        if not self.io_seconds or not seconds > 0:
            return self
        share = max(0.0, 1.0 - seconds / self.io_seconds)
        return replace(self._scale_savings(lambda advice: share), io_seconds=self.io_seconds * share)

    def at_most(self, seconds: float, rules: Collection[str]) -> Advised:
        """Limit the savings of these rules."""
        most = max(seconds, 0.0)
        return self._scale_savings(lambda a: most / a.seconds if a.name in rules and a.seconds > most else 1.0)

    def _scale_savings(self, share_of: Callable[[Advice], float]) -> Advised:
        """Scale the savings of each pattern; one that falls below the floor no longer matters."""
        patterns = []
        for advice in self.patterns:
            share = share_of(advice)
            saving, still = advice.saving.scaled(share), advice.stated_seconds * share >= self.floor_seconds
            model_seconds, matters = advice.model_seconds * share, advice.matters and still
            patterns.append(replace(advice, model_seconds=model_seconds, saving=saving, matters=matters))
        return replace(self, patterns=tuple(patterns))


_Advised = TypeVar("_Advised", Advice, AdviceItem)


def one_per_dimension(patterns: Iterable[_Advised]) -> tuple[_Advised, ...]:
    """Return the first pattern of each dimension: patterns of one dimension mostly have one cause."""
    first: dict[str, _Advised] = {}
    for advice in patterns:
        first.setdefault(advice.dimension, advice)
    return tuple(first.values())


def advise(view: JobView) -> Advised:
    """Return the patterns of the job's run with most I/O time; processes without MPI are one run."""
    one = as_one_run(view)
    profile = profile_of(one)
    floor = max(FLOOR_SECONDS, FLOOR_SHARE * (profile.run_seconds or 0.0))
    # Counters of a damaged log may be anything: costs that are not finite count as 0.
    with np.errstate(all="ignore"):
        notes, of_site = read_site_advice()
        rules = () if profile.sums_only else (*RULES, *of_site)
        found = [(rule, advice) for rule in rules if (advice := rule.advice(profile)) is not None]
    explained = {name for rule, _ in found for name in rule.explains}
    seen = [advice for _, advice in found if advice.name not in explained]
    return Advised(
        patterns=tuple(
            replace(a, matters=a.stated_seconds >= floor and a.stated_seconds > 0, note=notes.get(a.name, ""))
            for a in sorted(seen, key=lambda advice: -advice.stated_seconds)
        ),
        io_seconds=profile.io_seconds,
        run_seconds=profile.run_seconds,
        floor_seconds=floor,
        incomplete=one.incomplete,
    )
