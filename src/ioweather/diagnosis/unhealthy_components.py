"""Capped targets: an OST or a device that still does what is asked, but never faster than a limit it did not have.

Amounts alone do not tell a slow target from an idle one: a target may do a tenth of its peers' work because nobody
wants more. A slow target has another mark. While it is slow it works at its limit for long, never above it, and its
peers go faster in the same hours. In its rates over five minutes, as shares of its own usual ceiling, that is a stretch

    nothing above L (1 + e),   at least MIN_MINUTES between L (1 - e) and L (1 + e),   L < HIGHEST_LEVEL

in which most peers exceed L by a margin. A striped job that is slow at its own end draws such a stretch too, but on
all its targets at once. So among targets with the same limit at the same time only one that stands out is named, or
targets of one server together, whose limit may be the server's.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Bools, Floats
from ioweather.core.frames import Frame, Matrix
from ioweather.core.tables import TABLES
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS, format_seconds
from ioweather.diagnosis.health_evidence import Evidence, Observations, merged

# [ours] Set on simulated weeks, plain and with noise of 10% and 20% on every minute: at 90 minutes half of those named
# were healthy, at 180 none. Means over five minutes keep a noisy limit flat.
STEP_NS = 5 * MINUTE_NS
MIN_MINUTES = 180
# Jobs rarely draw so low a line by themselves.
LOW_LEVEL, MIN_MINUTES_LOW = 0.25, 120
MIN_LENGTH_NS = 2 * HOUR_NS
HIGHEST_LEVEL = 0.6
LOWEST_LEVEL = 0.05
_NEAR = 0.08  # e above
_FASTER = 1.16  # a peer that exceeds the limit by this goes faster
_FASTER_PEERS = 0.7
_STANDS_OUT = 1.25  # times the minutes at the limit that any other target with the same limit has
_SAME_LIMIT = 0.1
_CEILING_QUANTILE = 0.998
_LEVEL_STEP = 0.03
_MIN_PEERS = 4


@dataclass(frozen=True)
class Capped:
    """`level` is the limit as a share of the target's usual ceiling; `limit_bytes_per_s` the limit itself."""

    component: str
    start_ns: int
    end_ns: int
    level: float
    limit_bytes_per_s: float
    minutes_at_limit: float


@dataclass(frozen=True)
class _Stretch:
    column: int
    first: int
    last: int
    level: float
    limit: float
    at_limit: int


def capped_targets(matrix: Matrix, servers: Mapping[str, str] | None = None) -> tuple[Capped, ...]:
    """Of a matrix of bytes moved (read and written together) in steps of STEP_NS; the longest at its limit first.
    `servers` names the server of a component, where that is known."""
    values = np.asarray(matrix.values, dtype=np.float64)
    if values.shape[1] < _MIN_PEERS or not np.any(values > 0):
        return ()
    ceiling = _ceilings(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.nan_to_num(values / ceiling, nan=0.0, posinf=0.0)
    needed, needed_low = (max(2, round(m * MINUTE_NS / matrix.step_ns)) for m in (MIN_MINUTES, MIN_MINUTES_LOW))
    shortest = MIN_LENGTH_NS // matrix.step_ns
    held = _held(shares, min(needed, needed_low))
    found = [
        stretch
        for column in np.flatnonzero((ceiling > 0) & (held < HIGHEST_LEVEL * (1 + _NEAR))).tolist()
        for stretch in _apart_in_time(
            _stretches(shares, ceiling, column, (needed, needed_low), shortest, float(held[column]))
        )
    ]
    homes = [(servers or {}).get(name, name) for name in matrix.components]
    named = [s for s in found if not any(_outdone(s, other, homes) for other in found)]
    named.sort(key=lambda s: (-s.at_limit, s.column))
    return tuple(
        Capped(
            matrix.components[s.column],
            matrix.start_ns + s.first * matrix.step_ns,
            matrix.start_ns + s.last * matrix.step_ns,
            s.level,
            s.limit * 1e9 / matrix.step_ns,
            s.at_limit * matrix.step_ns / MINUTE_NS,
        )
        for s in named
    )


def _ceilings(values: Floats) -> Floats:
    """What each target can do: nearly its highest step, 0 where nothing was ever seen."""
    there = ~np.isnan(values).all(axis=0)
    ceiling = np.zeros(values.shape[1])
    seen = values[:, there]
    quantile = np.nanquantile if np.isnan(seen).any() else np.quantile  # which does not go column by column
    ceiling[there] = quantile(seen, _CEILING_QUANTILE, axis=0)
    return ceiling


def _held(shares: Floats, steps: int) -> Floats:
    """The lowest level that each target stayed below for so many steps in a row; infinite where there are fewer."""
    highest, width = shares, 1
    while width < steps:
        more = min(width, steps - width)
        highest, width = np.maximum(highest[:-more], highest[more:]), width + more
    return np.asarray(highest.min(axis=0, initial=np.inf))


def _stretches(
    shares: Floats, ceiling: Floats, column: int, least: tuple[int, int], shortest: int, held: float
) -> Iterator[_Stretch]:
    own = shares[:, column]
    is_peer = (ceiling > 0) & (np.arange(len(ceiling)) != column)
    levels = np.exp(np.arange(np.log(LOWEST_LEVEL), np.log(HIGHEST_LEVEL), _LEVEL_STEP))
    needs = np.where(levels < LOW_LEVEL, least[1], least[0])
    ordered = np.sort(own)
    near = np.searchsorted(ordered, levels * (1 + _NEAR), "right") - np.searchsorted(ordered, levels * (1 - _NEAR))
    worth = (near >= needs) & (levels * (1 + _NEAR) >= held)
    for level, needed in zip(*(a[worth].tolist() for a in (levels, needs)), strict=True):
        below = own <= level * (1 + _NEAR)
        at_limit = below & (own >= level * (1 - _NEAR))
        seen = np.concatenate([[0], np.cumsum(at_limit)])
        edges = np.concatenate([[-1], np.flatnonzero(~below), [len(own)]])
        starts, ends = edges[:-1] + 1, edges[1:]
        counts = seen[ends] - seen[starts]
        for start, end, count in zip(*(a[counts >= needed].tolist() for a in (starts, ends, counts)), strict=True):
            places = np.flatnonzero(at_limit[start:end])
            first, last = start + int(places[0]), start + int(places[-1]) + 1
            if last - first < shortest:
                continue
            if _peers_are_faster(shares[first:last, is_peer], level, count):
                yield _Stretch(column, first, last, level, float(level * ceiling[column]), count)


def _peers_are_faster(peers: Floats, level: float, at_limit: int) -> bool:
    """Most peers went faster. Those that never exceeded the same limit, and were at it for less long, do not count:
    they shared stripes with this one and went at its pace."""
    highest = peers.max(axis=0)
    near = np.sum(np.abs(peers / level - 1) <= _NEAR, axis=0)
    drawn = (highest <= level * (1 + _NEAR)) & (near > 0) & (near * _STANDS_OUT <= at_limit)
    others = highest[~drawn]
    return len(others) >= _MIN_PEERS and float(np.mean(others > level * _FASTER)) >= _FASTER_PEERS


def _apart_in_time(found: Iterator[_Stretch]) -> list[_Stretch]:
    """Neighbouring levels see the same stretch: the level with the most minutes speaks for them."""
    kept: list[_Stretch] = []
    for stretch in sorted(found, key=lambda s: -s.at_limit):
        if all(stretch.last <= k.first or stretch.first >= k.last for k in kept):
            kept.append(stretch)
    return kept


def _outdone(stretch: _Stretch, other: _Stretch, homes: Sequence[str]) -> bool:
    """Another server's target had the same limit at the same time for about as long, or longer."""
    if homes[stretch.column] == homes[other.column]:
        return False
    common = min(stretch.last, other.last) - max(stretch.first, other.first)
    shorter = min(stretch.last - stretch.first, other.last - other.first)
    same = abs(float(np.log(stretch.limit / other.limit))) < _SAME_LIMIT
    return common > 0.5 * shorter and same and other.at_limit * _STANDS_OUT > stretch.at_limit


if TYPE_CHECKING:
    pass

Sickness: TypeAlias = Literal["slow", "stalled", "capped", "absent", "busy", "overloaded"]

# [ours] What is named must be right in four of five cases.
NAMED: Final = 0.8
# A log-likelihood ratio assumes that looks are independent, which they are in part: it counts for so much.
_TRUST: Final = 0.5
_SUREST: Final = 0.99
# Stretches of one component with less than this, and less than their own length, between them are one incident.
_ONE_INCIDENT_NS: Final = 6 * HOUR_NS
# Servers and targets that do not report for so many samples, and minutes, while most others do.
_SILENT_STEPS: Final = 3
_SILENT_NS: Final = 3 * MINUTE_NS
_LONGEST_SILENCE_NS: Final = 24 * HOUR_NS
# What did nothing in most of so many samples before may have lost its collector alone, and nobody was kept waiting.
_ASKED_STEPS: Final = 10
_ABSENT_PROBABILITY: Final = 0.95
_CAPPED_PROBABILITY: Final = 0.85
_LEAST_COMPONENTS: Final = 3
_MOST_OF: Final = 0.66


@dataclass(frozen=True)
class Incident:
    """[start, end) in which a component was unhealthy. `factor`: how many times longer its operations took than
    expected under its load (of processors: how many times busier). `through` are targets that showed it, of a server.
    `runs` used it meanwhile, and lost `lost_seconds` together."""

    component: str
    kind: Sickness
    start_ns: int
    end_ns: int
    probability: float
    factor: float | None = None
    shown_by: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    runs: int | None = None
    lost_seconds: float | None = None

    @property
    def is_named(self) -> bool:
        return self.probability >= NAMED

    def meets(self, other: Incident) -> bool:
        """The same component at the same time."""
        return self.component == other.component and _meet(self, other)


_KINDS: Final[Mapping[tuple[str, ...], Sickness]] = {("cpu",): "busy", ("storm",): "overloaded"}


def sick_stretches(parts: Sequence[Evidence]) -> list[Incident]:
    """Of each component, the stretches of time in which it was sick, however likely."""
    components = sorted({name for part in parts for name in part.components})
    if not components:
        return []
    odds, excess, by_kind = merged(parts, components)
    bins = odds.shape[0]
    seen = max(1, int(np.count_nonzero(odds)))
    found = []
    start_ns, bin_ns = parts[0].start_ns, parts[0].bin_ns
    onset = float(np.log(seen))
    for column, runs in enumerate(_sick_bins(odds, onset)):
        for first, last in runs:
            score = float(odds[first:last, column].sum()) - onset
            # It may have begun at any time since the last healthy look.
            first += int(np.argmax(odds[first:last, column] != 0)) // 2
            slow = excess[first:last, column]
            slow = slow[np.isfinite(slow)]
            names = tuple(name for name, own in by_kind.items() if own[first:last, column].sum() > 0)
            found.append(
                Incident(
                    components[column], _KINDS.get(names, "slow"), start_ns + first * bin_ns,
                    start_ns + min(last, bins) * bin_ns, _probability(score),
                    float(np.exp(np.median(slow))) if len(slow) else None, names,
                )
            )  # fmt: skip
    return found


def stalled_stretches(
    looks: Sequence[Observations], sick: Sequence[Incident], evidence: Callable[[Observations], Evidence]
) -> list[Incident]:
    """A server that stalls leaves its device idle and in good health: where devices are timed, the search without that,
    and without what is known to be sick, which does not tell what healthy ones show."""
    if not any(each.name == "service" for each in looks):
        return []
    rest = [_elsewhere(each, sick) for each in looks if each.name not in ("service", "storm")]
    return [replace(each, kind="stalled") for each in sick_stretches([evidence(each) for each in rest])]


def _elsewhere(looks: Observations, sick: Sequence[Incident]) -> Observations:
    """Looks at other components, or at other times, than those of the incidents."""
    names, kept = np.array(looks.components, np.object_)[looks.component], np.ones(len(looks.component), np.bool_)
    for each in sick:
        kept &= (names != each.component) | (looks.start_ns < each.start_ns) | (looks.start_ns >= each.end_ns)
    return looks.take(kept)


def _probability(score: float) -> float:
    return float(min(_SUREST, 1.0 / (1.0 + np.exp(-_TRUST * score))))


def _sick_bins(odds: Floats, onset: float) -> list[list[tuple[int, int]]]:
    """[first, last) of the bins in which each component was sick, in its likeliest history."""
    bins, columns = odds.shape
    healthy, sick = np.zeros(columns), np.full(columns, -np.inf)
    stayed, fell = np.zeros((bins, columns), np.bool_), np.zeros((bins, columns), np.bool_)
    for row in range(bins):
        recovered = sick > healthy
        begun = healthy - onset > sick
        stayed[row], fell[row] = ~recovered, begun
        healthy, sick = np.where(recovered, sick, healthy), np.where(begun, healthy - onset, sick) + odds[row]
    state = sick > healthy
    states = np.zeros((bins, columns), np.bool_)
    for row in range(bins - 1, -1, -1):
        states[row] = state
        state = np.where(state, ~fell[row], ~stayed[row])
    return [_runs(states[:, column]) for column in range(columns)]


def _runs(chosen: Bools) -> list[tuple[int, int]]:
    padded = np.concatenate([[False], chosen, [False]])
    first = np.flatnonzero(~padded[:-1] & padded[1:])
    last = np.flatnonzero(padded[:-1] & ~padded[1:])
    return list(zip(first.tolist(), last.tolist(), strict=True))


def capped_stretches(found: Sequence[Capped]) -> list[Incident]:
    return [
        Incident(
            each.component, "capped", each.start_ns, each.end_ns, _CAPPED_PROBABILITY, 1.0 / each.level, ("limit",)
        )
        for each in found
    ]


# Evidence by the time that requests on a component itself took.
_TIMED: Final = ("service", "served", "probe")


def answered_as_usual(incident: Incident, parts: Sequence[Evidence]) -> bool:
    """Requests on the component took no longer meanwhile: it did less because less was asked."""
    said = 0.0
    for part in parts:
        if part.name in _TIMED and incident.component in part.components:
            first = max(0, (incident.start_ns - part.start_ns) // part.bin_ns)
            last = max(0, -(-(incident.end_ns - part.start_ns) // part.bin_ns))
            said += float(part.odds[first:last, part.components.index(incident.component)].sum())
    return said < 0


def silent_stretches(amounts: Matrix, servers: Mapping[str, str]) -> list[Incident]:
    """Components that reported before and after, or shortly before, and not meanwhile, while most others did. Of one
    that had nothing to do before, silence is no data, not sickness."""
    there = ~np.isnan(amounts.values)
    columns = there.shape[1]
    if columns < _LEAST_COMPONENTS:
        return []
    others = there.mean(axis=1) >= 0.5
    least = max(_SILENT_STEPS, -(-_SILENT_NS // amounts.step_ns))
    found = []
    for column, name in enumerate(amounts.components):
        own = np.flatnonzero(there[:, column])
        if not len(own):
            continue
        silent = ~there[:, column] & others
        silent[: own[0]] = False
        for first, last in _runs(silent):
            before = amounts.values[own[own < first][-_ASKED_STEPS:], column]
            if least <= last - first <= _LONGEST_SILENCE_NS // amounts.step_ns and np.median(before) > 0:
                start, end = (amounts.start_ns + edge * amounts.step_ns for edge in (first, last))
                found.append(Incident(name, "absent", start, end, _ABSENT_PROBABILITY, None, ("silence",)))
    return _of_servers(found, amounts.components, servers, least_share=1.0)


def _of_servers(
    found: Sequence[Incident], seen: Sequence[str], servers: Mapping[str, str], least_share: float
) -> list[Incident]:
    """Targets of one server that were unhealthy at one time are that server."""
    targets: dict[str, set[str]] = defaultdict(set)
    for name in seen:
        if name in servers:
            targets[servers[name]].add(name)
    kept, rest = [], sorted(found, key=lambda each: each.start_ns)
    while rest:
        each = rest.pop(0)
        home = servers.get(each.component)
        together = [other for other in rest if home and servers.get(other.component) == home and _meet(each, other)]
        names = {each.component, *(other.component for other in together)}
        if home and len(targets[home]) > 1 and len(names) >= max(2, least_share * len(targets[home])):
            rest = [other for other in rest if other not in together]
            members = [each, *together]
            factors = [member.factor for member in members if member.factor is not None]
            each = Incident(
                home, each.kind, min(m.start_ns for m in members), max(m.end_ns for m in members),
                max(m.probability for m in members), max(factors) if factors else None,
                tuple(dict.fromkeys(name for m in members for name in m.shown_by)), tuple(sorted(names)),
            )  # fmt: skip
        kept.append(each)
    return kept


def _meet(one: Incident, other: Incident) -> bool:
    return one.start_ns < other.end_ns and other.start_ns < one.end_ns


def fewest_causes(
    slow: Sequence[Incident], silent: Sequence[Incident], seen: Sequence[str], servers: Mapping[str, str]
) -> tuple[Incident, ...]:
    """Incidents that are likely enough to be named, in the order of time."""
    rest = [each for each in slow if each.is_named]
    named: list[Incident] = []
    for failed in silent:
        if failed.through:
            failed, rest = _with_followers(failed, rest, servers)
        named.append(failed)
    named += _of_servers(_one_incident(rest), seen, servers, least_share=_MOST_OF)
    return tuple(sorted(_one_incident(named), key=lambda each: (each.start_ns, each.component)))


def _with_followers(
    failed: Incident, slow: Sequence[Incident], servers: Mapping[str, str]
) -> tuple[Incident, list[Incident]]:
    """The failure until its last consequence: its own targets, and those of the server that took them over."""
    after = replace(failed, end_ns=failed.end_ns + _ONE_INCIDENT_NS)
    meanwhile = [each for each in slow if _meet(each, after)]
    # Sick for the most part before, it is something else.
    meanwhile = [each for each in meanwhile if each.start_ns + each.end_ns >= 2 * failed.start_ns]
    by_server: dict[str, list[Incident]] = defaultdict(list)
    for each in meanwhile:
        by_server[servers.get(each.component, each.component)].append(each)
    followers = by_server.pop(failed.component, [])
    counts = {home: len({each.component for each in each_of}) for home, each_of in by_server.items()}
    partner = max(counts, key=lambda home: counts[home], default=None)
    if partner is not None:
        followers += by_server[partner]
    if not followers:
        return failed, list(slow)
    factors = [each.factor for each in followers if each.factor is not None]
    whole = replace(
        failed,
        end_ns=max(failed.end_ns, *(each.end_ns for each in followers)),
        factor=max(factors) if factors else None,
        shown_by=tuple(dict.fromkeys([*failed.shown_by, *(name for each in followers for name in each.shown_by)])),
        through=tuple(sorted({*failed.through, *(each.component for each in followers)})),
    )
    return whole, [each for each in slow if each not in followers]


# Of an incident that showed in several ways, the last of these is told.
_TELLING: Final[tuple[Sickness, ...]] = ("busy", "overloaded", "capped", "stalled", "slow", "absent")


def _one_incident(found: Sequence[Incident]) -> list[Incident]:
    """Stretches of one component that nearly meet are one."""
    joined: list[Incident] = []
    for each in sorted(found, key=lambda e: (e.component, e.start_ns)):
        last = joined[-1] if joined else None
        longest = max((e.end_ns - e.start_ns for e in (each, last) if e), default=0)
        near = min(_ONE_INCIDENT_NS, longest)
        if last and last.component == each.component and each.start_ns - last.end_ns <= near:
            factors = [f for f in (last.factor, each.factor) if f is not None]
            joined[-1] = replace(
                last, end_ns=max(last.end_ns, each.end_ns), probability=max(last.probability, each.probability),
                factor=max(factors) if factors else None, kind=max(last.kind, each.kind, key=_TELLING.index),
                shown_by=tuple(dict.fromkeys([*last.shown_by, *each.shown_by])),
                through=tuple(sorted({*last.through, *each.through})),
            )  # fmt: skip
        else:
            joined.append(each)
    return joined


_SHOWN: Final = {
    "service": "time per request at its device",
    "served": "time per request at its server",
    "probe": "probes of it",
    "metadata": "probes of metadata operations",
    "runs": "jobs that used several targets at the time",
    "cpu": "processor use",
    "metadata_served": "time per operation at its server",
    "shared": "probes of most targets",
    "clients": "most of its clients",
    "storm": "probes of metadata operations",
}


def cause_of(incident: Incident) -> str:
    """In a sentence, without a full stop."""
    name, by = incident.component, _listed([_SHOWN[each] for each in incident.shown_by if each in _SHOWN])
    times = f"{incident.factor or 1:.2g} times as long"
    what = "operations" if {"metadata", "metadata_served"} & {*incident.shown_by} else "requests"
    if incident.kind == "absent":
        later = f", and its targets were slow afterwards (by {by})" if by else ""
        return f"no samples of {name} came while those of others did: it was down or cut off{later}"
    if incident.kind == "capped":
        level = 1 / (incident.factor or 1)
        return f"{name} worked at {level:.0%} of its usual ceiling and never above, while others did"
    if incident.kind == "stalled":
        return f"{what} on {name} took {times} as on others (by {by}), though its device did not: its server stalls"
    if incident.kind == "busy":
        return f"the processors of {name} were {incident.factor or 1:.2g} times as busy as what it moved explains"
    if incident.kind == "overloaded":
        return f"metadata operations took {times} as usual: more was asked of {name} than it can do"
    if "clients" in incident.shown_by:
        return f"{what} of most clients of {name} took {times} as expected: its server or the network"
    if "shared" in incident.shown_by:
        return f"{what} on most targets of {name} took {times} as expected: its network or its clients"
    return f"{what} on {name} took {times} as expected under its load (by {by})"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def health_events(found: Sequence[Incident], system: str) -> Frame:
    """Rows of `events`. The same incident has the same id, so that a later search revises it."""
    return TABLES["events"].frame(
        rows=len(found),
        event_id=[f"component_health:{system}:{each.component}:{each.kind}:{each.start_ns}" for each in found],
        kind="component_health",
        system=system,
        component=[each.component for each in found],
        start_ns=[each.start_ns for each in found],
        end_ns=[each.end_ns for each in found],
        label=[f"{cause_of(each)}, for {format_seconds((each.end_ns - each.start_ns) / NS)}" for each in found],
        strength_ratio=[each.factor for each in found],
        details=[json.dumps(_details(each)) for each in found],
    )


def _details(incident: Incident) -> dict[str, object]:
    return {
        "direction": incident.kind,
        "cause": cause_of(incident),
        "probability": round(incident.probability, 3),
        "shown_by": list(incident.shown_by),
        "through": list(incident.through),
        "runs": incident.runs,
        "lost_seconds": None if incident.lost_seconds is None else round(incident.lost_seconds, 1),
    }
