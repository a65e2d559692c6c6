"""What a search for unhealthy components covers: which components, the shortest trouble that shows, and what does not.

Times follow from the samples and from the thresholds of the search, for the case that one kind of measurement shows the
trouble as clearly as it can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ioweather.core.contracts import Period
from ioweather.core.outcomes import Searched
from ioweather.core.results import Fact, FactGroup
from ioweather.core.units import NS, format_seconds, format_time_ns
from ioweather.diagnosis.health_incidents import (
    LEAST_LIMITED,
    LEAST_REPORTING,
    LEAST_SILENT_NS,
    MIN_MINUTES,
    least_slow_bins,
)
from ioweather.diagnosis.health_query import SearchWindow, list_windows, names_of, sources_of
from ioweather.facts.loads import servers_of
from ioweather.lake.snapshot import Snapshot

_LUSTRE: Final = re.compile(r"(?:^|-)(OST|MDT)[0-9a-f]{4}$")
_STEM: Final = re.compile(r"([A-Za-z]{3,})[-_. ]?\d+$")
_WORDS: Final = {
    "ost": "target",
    "probed": "probed target",
    "mdt": "metadata target",
    "mds": "metadata server",
    "host": "client",
}
_BY_METADATA: Final = {"metadata", "metadata_served"}


def find_scope(snapshot: Snapshot, period: Period, filesystem: str | None) -> tuple[Searched, ...]:
    """What was searched of each file system in the period, the one with most components first."""
    low, high = period
    windows: dict[str, list[SearchWindow]] = {}
    for window in list_windows(snapshot, max(low, 0)):
        if filesystem in (None, window.filesystem) and window.start_ns < high and window.end_ns > low:
            windows.setdefault(window.filesystem, []).append(window)
    order = sorted(windows, key=lambda name: (-windows[name][-1].components, name))
    return tuple(
        _searched(windows[name][-1], max(low, windows[name][0].start_ns), min(high, windows[name][-1].end_ns))
        for name in order
    )


def _searched(window: SearchWindow, start_ns: int, end_ns: int) -> Searched:
    names, sources = names_of(window), sources_of(window)
    kind = next((kind for kind in ("ost", "device") if kind in names), "probed")
    targets = names.get(kind, ())
    sampled = 0 if kind == "probed" else len(targets)
    servers = set(names.get("oss", ())) or set(servers_of(window.snapshot, targets).values())
    counts = {component_word(kind, targets): len(targets)} if targets else {}
    counts |= {component_word(each, names[each]): len(names[each]) for each in ("mdt", "mds", "host") if each in names}
    if servers:
        counts["server"] = len(servers)
    slow, limited = sources - _BY_METADATA, MIN_MINUTES * 60.0
    bins = least_slow_bins(window.bins.count * max(1, len(targets)))
    return Searched(
        filesystem=window.filesystem,
        start_ns=start_ns,
        end_ns=end_ns,
        components=counts,
        slow_seconds=bins * window.bin_ns / NS if slow else None,
        limited_seconds=limited if sampled >= LEAST_LIMITED and (end_ns - start_ns) / NS >= limited else None,
        silent_seconds=max(LEAST_SILENT_NS, window.interval_ns) / NS if sampled >= LEAST_REPORTING else None,
        unseen=tuple(_unseen(sources, sampled)),
    )


def _unseen(sources: set[str], sampled: int) -> Iterator[str]:
    if not sources - _BY_METADATA:
        yield "slow targets (no request times, no counts of jobs and no probes of three or more targets)"
    elif sources - _BY_METADATA == {"service"}:
        yield "servers that stall while their devices answer (no probes of single targets)"
    if sampled < LEAST_REPORTING:
        yield "silent targets (fewer than three report)"
    if sampled < LEAST_LIMITED:
        yield "targets stuck at a limit (fewer than four report)"
    if not sources & _BY_METADATA:
        yield "slow metadata servers (no counters of them with probes)"
    yield "a limit that all targets share, as of the network"
    if "clients" not in sources:
        yield "slow clients"


def component_word(kind: str, names: Sequence[str]) -> str:
    """What a file system calls its components: OST, brick, target; in the singular."""
    for pattern in (_LUSTRE, _STEM):
        stems = {match[1] if (match := pattern.search(name)) else "" for name in names}
        if len(stems) == 1 and "" not in stems and (pattern is _LUSTRE or kind in ("ost", "probed")):
            return stems.pop()
    return _WORDS.get(kind, kind)


def scope_words(searched: Searched) -> str:
    """Sentences on what was searched."""
    counted = [f"{count:,} {word}{'s' if count != 1 else ''}" for word, count in searched.components.items()]
    listed = " and ".join(filter(None, (", ".join(counted[:-1]), *counted[-1:])))
    shown = [
        f"{what} from {format_seconds(seconds)}"
        for what, seconds in (
            ("slowness", searched.slow_seconds),
            ("silence", searched.silent_seconds),
            ("limits", searched.limited_seconds),
        )
        if seconds is not None
    ]
    times = f"{format_time_ns(searched.start_ns)} to {format_time_ns(searched.end_ns)}"
    found = f"; {', '.join(shown)}" if shown else ""
    unseen = f" Not seen: {', '.join(searched.unseen)}." if searched.unseen else ""
    return f"Searched {listed} of {searched.filesystem}, {times}{found}.{unseen}"


def scope_group(scope: Sequence[Searched]) -> FactGroup:
    """The same as facts; durations are the shortest trouble that shows."""
    facts = []
    for number, each in enumerate(scope, 1):
        facts += [
            Fact(
                f"components_{number}_{word.lower().replace(' ', '_')}", f"{word}s of {each.filesystem}", count, "count"
            )
            for word, count in each.components.items()
        ]
        for name, label in (("slow", "slowness"), ("silent", "silence"), ("limited", "limits")):
            seconds = getattr(each, f"{name}_seconds")
            if seconds is not None:
                facts.append(Fact(f"{name}_{number}", f"{label} on {each.filesystem} from", seconds, "seconds"))
    return FactGroup("searched", "Searched", tuple(facts))
