"""What targets and metadata servers can do: the most that they did in a second, on a few days of a calendar month, so
that all questions about a month know the same. Of sealed days the highest rates are kept among the lake's records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.clock import utc_day
from ioweather.core.errors import DataUnavailable
from ioweather.core.units import DAY_NS
from ioweather.derive.system.shared_work import AMOUNTS, Capacity
from ioweather.store.convert import literal
from ioweather.store.inventory import seal_of
from ioweather.store.records import LakeRecords
from ioweather.store.snapshot import Snapshot
from ioweather.studies.shared import choices
from ioweather.tables import Quality

# Operations that move data; a metadata target does them for small files.
REQUESTS: Final = ("read_ops", "write_ops")
_OF_DATA: Final = {"read_bytes": ("read_bytes",), "write_bytes": ("write_bytes",), "requests": REQUESTS}
_METADATA: Final = ("mds", "mdt")
# What targets can do is seen in so many days; more days say the same. [ours]
_DAYS: Final = 3
_PEAK_QUANTILE: Final = 0.999
_PEER_QUANTILE: Final = 0.9
# A target writes at least this share of what it reads, and reads of what it writes, however little was asked. [ours]
_OTHER_DIRECTION: Final = 0.5
_ALL: Final = "all"
_EXCLUDED: Final = int(Quality.OVER_LIMIT | Quality.RESET)


def capacity_of(snapshot: Snapshot, filesystem: str, moment_ns: int) -> tuple[tuple[str, ...], Capacity | None]:
    """Components of the file system and the most that each did about then; none where nothing was sampled."""
    try:
        kind = choices.traffic_kind(snapshot, {"filesystem": filesystem})
        components, most = _peaks(snapshot, filesystem, kind, _OF_DATA, moment_ns)
    except DataUnavailable:
        return (), None
    # What a target did is the least it can do: one that had less to do can do as much as its peers.
    peers = np.quantile(most, _PEER_QUANTILE, axis=1, keepdims=True) if most.size else np.zeros((len(AMOUNTS), 1))
    most = np.maximum(most, peers)
    most[:2] = np.maximum(most[:2], _OTHER_DIRECTION * most[1::-1])
    metadata = metadata_capacity(snapshot, filesystem, moment_ns)
    per_second = {name: np.append(most[i], metadata if name == "requests" else 0.0) for i, name in enumerate(AMOUNTS)}
    return components, Capacity(per_second)


def metadata_capacity(snapshot: Snapshot, filesystem: str, moment_ns: int) -> float:
    """The most operations in a second that metadata targets did; 0 where they were not sampled."""
    groups = [g for g in snapshot.series() if g.filesystem == filesystem and g.metric == "open_ops"]
    kind = next((kind for kind in _METADATA if any(g.component_kind == kind for g in groups)), None)
    if kind is None:
        return 0.0
    metrics = sorted({g.metric for g in snapshot.series() if g.component_kind == kind and g.metric.endswith("_ops")})
    try:
        _, most = _peaks(snapshot, filesystem, kind, {_ALL: tuple(metrics)}, moment_ns)
    except DataUnavailable:
        return 0.0
    return float(most.max(initial=0.0))


def _peaks(
    snapshot: Snapshot, filesystem: str, kind: str, amounts: Mapping[str, Sequence[str]], moment_ns: int
) -> tuple[tuple[str, ...], Floats]:
    """Components and, by amount and component, the highest rates: those of a few days of the month, or of the nearest
    that was sampled. The amount `all` is of all components together."""
    metrics = {metric for several in amounts.values() for metric in several}
    groups = [
        g for g in snapshot.series() if g.filesystem == filesystem and g.component_kind == kind and g.metric in metrics
    ]
    if not groups:
        raise DataUnavailable(f"no samples of {filesystem}")
    month = utc_day(moment_ns)[:7]
    nearest = min(groups, key=lambda g: (g.day[:7] != month, abs(g.first_ns - moment_ns))).day[:7]
    days = sorted({g.day for g in groups if g.day[:7] == nearest})
    chosen = sorted({days[round(i)] for i in np.linspace(0, len(days) - 1, min(len(days), _DAYS)).tolist()})
    step = max(1, min(group.interval_ns for group in groups if group.interval_ns > 0))
    found = [_highest(snapshot, filesystem, kind, amounts, day, step) for day in chosen]
    components = tuple(sorted({str(name) for each in found for name in each["components"].tolist()}))
    place = {name: column for column, name in enumerate(components)}
    most = np.zeros((len(amounts), len(components)))
    for amount in range(len(amounts)):
        rates: list[list[Any]] = [[] for _ in components]
        count = np.zeros(len(components), np.int64)
        for each in found:
            columns = [place[str(name)] for name in each["components"].tolist()]
            count[columns] += each["counts"][amount]
            for column, highest in zip(columns, each["rates"][amount], strict=True):
                rates[column].append(highest)
        for column, several in enumerate(rates):
            highest = np.sort(np.nan_to_num(np.concatenate(several)))[::-1]
            rank = int(count[column] * (1.0 - _PEAK_QUANTILE))
            most[amount, column] = highest[min(rank, len(highest) - 1)]
    return components, most


def _highest(
    snapshot: Snapshot, filesystem: str, kind: str, amounts: Mapping[str, Sequence[str]], day: str, step_ns: int
) -> Mapping[str, Any]:
    """Of a day: `components`, how many rates there are by amount and component (`counts`), and the highest of them
    (`rates`), as many as the quantile over several such days can ask for."""
    metrics = sorted({metric for several in amounts.values() for metric in several})
    selection = snapshot.selection(filesystem, kind, metrics, step_ns, excluded_quality=_EXCLUDED)
    selection = replace(selection, groups=tuple(group for group in selection.groups if group.day == day))
    most = int(_DAYS * DAY_NS / step_ns * (1.0 - _PEAK_QUANTILE)) + 1
    files = snapshot.pinned["series"].days().get(day, [])
    groups = sorted((g.source, g.system, g.metric, g.selection) for g in selection.groups)
    place = f"peaks-{day}-{_digest([filesystem, kind, list(amounts.items())])[:12]}"
    key = _digest([most, _EXCLUDED, groups, [uri.rsplit("/", 1)[1] for uri in files]])
    records = LakeRecords(snapshot.root)
    kept = records.get(place, key, lambda held: {name: held[name] for name in ("components", "counts", "rates")})
    if kept is not None:
        return kept
    together = _ALL in amounts
    sums = ", ".join(
        f"sum(CASE WHEN metric IN ({', '.join(map(literal, several))}) THEN value * 1e9 / interval_ns END) AS a{number}"
        for number, several in enumerate(amounts.values())
    )
    asked = ", ".join(f"count(a{number}), max(a{number}, {most})" for number in range(len(amounts)))
    rows = snapshot.bare.execute(f"""WITH rates AS (SELECT {"''" if together else "component"} AS component, {sums}
            FROM ({selection.scan(metrics)}) WHERE interval_ns > 0 GROUP BY 1, start_ns)
        SELECT component, {asked} FROM rates GROUP BY component ORDER BY component""").fetchall()
    rates = np.full((len(amounts), len(rows), most), np.nan)
    for column, row in enumerate(rows):
        for amount, highest in enumerate(row[2::2]):
            rates[amount, column, : len(highest or ())] = highest or ()
    counts = np.array([row[1::2] for row in rows], np.int64).reshape(len(rows), len(amounts)).T
    found = {"components": np.array([row[0] for row in rows], np.str_), "counts": counts, "rates": rates}
    if seal_of(snapshot.root, day, files) is not None:
        records.put(place, key, found)
    return found


def _digest(said: Any) -> str:
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]
