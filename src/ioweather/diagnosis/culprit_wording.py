"""Who it was, in words: sentences about a culprit, what it did, and what to tell the one whose job it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ioweather.core.foreign_text import one_line
from ioweather.core.outcomes import Culprit, WhyOutcome
from ioweather.core.results import Answer, Finding
from ioweather.core.units import format_bytes, format_seconds
from ioweather.diagnosis.blame import Accused, Blame, Party, Slowed, Suspect, accused, blame, one_of_two

_SMALL_REQUEST_BYTES: Final = 64 * 1024
_MOST_SENTENCES: Final = 3
NOT_ADDITIVE: Final = (
    "Seconds of several jobs need not add up: without one of two the run may still wait for the other."
)


def party_words(party: Party, *, begins: bool = False) -> str:
    """`job 4711 (alice, bulkcopy)`; of a job that may not be shown only that there was one. Where it begins a sentence,
    what is a name stays as it is."""
    if party.hidden:
        return "Another job" if begins else "another job"
    no_name = "Work without a job id" if begins else "work without a job id"
    name = (
        f"{'Job' if begins else 'job'} {party.job_id}" if party.job_id is not None else one_line(party.key) or no_name
    )
    user = party.user or (f"uid {party.uid}" if party.uid is not None else "")
    beside = ", ".join(one_line(text) for text in (user, party.program or "") if text)
    return f"{name} ({beside})" if beside else name


def sure(probability: float) -> str:
    return f"{probability:.0%} sure" if probability < 0.995 else "more than 99% sure"


def without_words(run: Slowed, found: Blame) -> str:
    """The leave-one-out sentence."""
    took, less = format_seconds(run.io_seconds), format_seconds(max(0.0, run.io_seconds - found.seconds))
    interval = f"{format_seconds(found.low)} to {format_seconds(found.high)} less"
    who = party_words(found.suspect.party)
    return f"Without {who} this run's I/O would have taken {less}, not {took} ({interval}; {sure(found.probability)})."


def pattern_words(suspect: Suspect) -> str:
    """What the job did meanwhile."""
    moved = suspect.read_bytes + suspect.write_bytes
    done = [
        f"{verb} {format_bytes(size)}"
        for verb, size in (("read", suspect.read_bytes), ("wrote", suspect.write_bytes))
        if size >= 1
    ]
    if done and suspect.requests >= 1:
        done[-1] += f" in requests of {format_bytes(moved / suspect.requests)}"
    if suspect.metadata_operations >= 1:
        done.append(f"did {suspect.metadata_operations:,.0f} metadata operations")
    where = ", ".join(f"{share:.0%} of the work on {one_line(name)}" for name, share in suspect.targets[:2])
    return f"It {' and '.join(done) or 'was active'}{f': {where}' if where else ''}."


def tell_words(suspect: Suspect) -> str:
    """What to tell the one whose job it is."""
    moved = suspect.read_bytes + suspect.write_bytes
    if suspect.metadata_seconds > suspect.data_seconds:
        return "Ask for fewer opens and stats: pack small files together, or do them from fewer processes at a time."
    if suspect.requests >= 1 and moved / suspect.requests < _SMALL_REQUEST_BYTES:
        return "Ask for larger requests: small ones cost the targets more than their bytes."
    if suspect.targets and suspect.targets[0][1] > 0.5 and len(suspect.targets) <= 2:
        return "Ask to stripe its files over more targets: its bytes go to few of them."
    return "Ask to move it to quieter hours, or to spread its I/O over more time."


def as_culprit(found: Blame | Accused) -> Culprit:
    party = found.party if isinstance(found, Accused) else found.suspect.party
    seconds = found.seconds, found.low, found.high
    return Culprit(party.job_id, party.user, party.project, found.probability, *seconds, party.program)


def or_by_verdict(run: Slowed, result: WhyOutcome) -> Slowed:
    """Where too few similar runs tell what is usual, as of one that did something else, its verdict may."""
    usual = result.seconds.usual
    if run.usual.value is not None or usual is None or usual.value is None or result.harm_seconds is None:
        return run
    return replace(run, usual=usual, own=result.seconds.own, harm_seconds=result.harm_seconds)


def culprits_of(run: Slowed) -> tuple[Accused, ...]:
    return tuple(each for each in accused([(run, blame(run))], lambda party: party.key) if each.may_be_named)


def with_culprits(answer: Answer, run: Slowed | None) -> Answer:
    """The verdict's answer, and who it was where the system took the seconds."""
    result = answer.result
    if run is None or not isinstance(result, WhyOutcome) or result.kind not in ("system", "both"):
        return answer
    run = or_by_verdict(run, result)
    found = culprits_of(run)
    said = replace(result, culprits=tuple(as_culprit(each) for each in found))
    return replace(answer, result=said, findings=(*findings_of(run, found), *answer.findings))


def findings_of(run: Slowed, found: Sequence[Accused]) -> Iterator[Finding]:
    either = one_of_two(run)
    if either is not None:
        one, other = (party_words(party) for party in either.parties)
        yield Finding(f"One of {one} and {other} slowed it ({sure(either.probability)}).", "note", "one_of")
    for number, each in enumerate(found[:_MOST_SENTENCES], 1):
        suspect = each.worst.suspect
        words = f"{without_words(run, each.worst)} {pattern_words(suspect)}"
        yield Finding(words, "note", f"culprit_{number}")
    if len(found) > 1:
        yield Finding(NOT_ADDITIVE, name="not_additive")


def silence_words(run: Slowed) -> str:
    """Why nobody is named."""
    suspects = run.suspects
    if not run.is_slow:
        return "it was not slowed: its I/O took as long as usual"
    if not suspects.found:
        return "no record shows another job at work beside it"
    if suspects.known_ratio is not None and suspects.known_ratio < 0.5:
        return f"{1 - suspects.known_ratio:.0%} of the load on its targets is in nobody's record"
    if suspects.on_sick and not suspects.has_servers:
        return "one of its targets was sick, and nobody counted what jobs did to it"
    if run.attributable < 0.5:
        return "runs that met as much work of others are hardly slow more often here than the rest"
    return "what the jobs beside it did does not explain the time it lost"
