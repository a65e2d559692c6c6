"""Make exhibits from a lake: find the study, check its needs, run it and cache the result.

The cache key has everything that a result depends on: table versions, parameters, period, facility, software.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, starmap
from typing import Any, Literal

from ioweather.core.choices import check_resolution
from ioweather.core.contracts import ALL_TIME, Param, Period, Spread, Study
from ioweather.core.errors import DataUnavailable
from ioweather.core.logs import Progress, silent
from ioweather.core.papers import PAPERS, exhibit_entry, exhibits, published
from ioweather.core.papers.claim_tests import judge_claims
from ioweather.core.results import Exhibit, Provenance, exhibit_from_json, number_names, to_jsonable
from ioweather.lake.caches import read_record, write_record
from ioweather.lake.lake import Lake, Snapshot
from ioweather.lake.workers import in_order
from ioweather.topics.catalogue import STUDIES
from ioweather.topics.source import (
    DataSource,
    has_user_rows,
    provenance_of,
    refuse_unknown_names,
    resolve_params,
    simulated_caveat,
)

_MOST_CACHED = 20  # results of one exhibit


@dataclass(frozen=True)
class Availability:
    """Whether an exhibit can be made from this lake, and if not, what is missing."""

    id: str
    title: str
    study: str
    ready: bool
    missing: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """'ready', or why there is nothing to show."""
        return "ready" if self.ready else f"not possible: {'; '.join(self.missing)}"


def study_of(exhibit_id: str) -> Study:
    """Return the study that makes an exhibit; that of another package where the exhibit is of no paper."""
    of_others = (STUDIES[name] for name in STUDIES.plugins) if exhibit_id.partition(".")[0] not in PAPERS else ()
    found = next((study for study in of_others if exhibit_id in study.exhibits), None)
    return found or STUDIES[exhibit_entry(exhibit_id).study]


def availability(snapshot: Snapshot, *, plugins: bool = False) -> list[Availability]:
    """Return the availability of the exhibits of the five papers, in order; with `plugins` also of other packages."""
    filled, sampled = snapshot.filled(), _sampled(snapshot)
    listed = [(entry.id, entry.title, entry.study) for entry in exhibits()]
    for name in STUDIES.plugins if plugins else ():
        listed += [(each, f"made by {STUDIES.package_of(name)}", name) for each in STUDIES[name].exhibits]
    lacks = {name: STUDIES[name].missing(filled, sampled) for name in {name for _, _, name in listed}}
    return [Availability(each, title, name, not lacks[name], lacks[name]) for each, title, name in listed]


def _resolved(
    snapshot: Snapshot, study: Study, typed: Mapping[str, str], period: Period
) -> tuple[dict[str, Any], Provenance]:
    """Return the values of all parameters, and what the result depends on."""
    values = resolve_params(study.params, typed, lambda: snapshot, lambda: snapshot.facility.zone or "UTC")
    if "resolution" in typed:
        check_resolution(snapshot, values)
    return values, provenance_of(snapshot, study.tables, values, period, own_rows=has_user_rows(study.tables))


def catalogue_only() -> list[Availability]:
    """Return all exhibits as unavailable, for a site without a lake."""
    return [Availability(e.id, e.title, e.study, False, ("no data yet",)) for e in exhibits()]


def parameters_of(exhibit_id: str) -> tuple[Param, ...]:
    """Return the parameters of the study that makes an exhibit."""
    return study_of(exhibit_id).params


def make_exhibits(
    lake: Lake,
    ids: Sequence[str],
    *,
    params: Mapping[str, str] | None = None,
    period_ns: Period = ALL_TIME,
    use_cache: bool = True,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> list[Exhibit]:
    """Make the exhibits of these ids, in that order. A study that makes several is run once.

    With an executor, a study that spreads its work uses all workers; each of the others is one task. All read the same
    snapshot.
    """
    typed = params or {}
    studies = {exhibit_id: study_of(exhibit_id) for exhibit_id in ids}
    unique = list({study.name: study for study in studies.values()}.values())
    refuse_unknown_names(unique, typed)
    made: dict[str, Exhibit] = {}
    with lake.snapshot() as snapshot:
        here = [study for study in unique if executor is None or study.spreads]
        there = [study for study in unique if study not in here]
        orders = {s.name: (s.name, [x for x in ids if studies[x] is s], typed, period_ns, use_cache) for s in unique}
        spread: Spread = partial(in_order, executor)
        names = [study.name for study in (*here, *there)]
        position = 0

        def spread_with_progress(task: Callable[..., Any], inputs: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
            """Yield task(*input) in the order of the inputs, and report progress after each."""
            parts = list(inputs)
            for done, result in enumerate(spread(task, parts), start=1):
                progress(position, len(names), f"{names[position]}: part {done} of {len(parts)}")
                yield result

        unconnected = replace(snapshot)  # a copy without its connection can be pickled
        results = chain(
            (_run(snapshot, *orders[study.name], spread_with_progress) for study in here),
            spread(_run, ((unconnected, *orders[study.name]) for study in there)),
        )
        for position, name in enumerate(names):
            progress(position, len(names), name)
            made |= next(results)
        progress(len(names), len(names), "")
    for exhibit_id in ids:
        if exhibit_id not in made:
            raise DataUnavailable(
                f"{exhibit_id}: {study_of(exhibit_id).too_few}.",
                hint="See docs/reference/exhibits.md for its requirements.",
            )
    return [made[exhibit_id] for exhibit_id in ids]


def each_exhibit(
    lake: Lake,
    ids: Sequence[str],
    *,
    params: Mapping[str, str] | None = None,
    period_ns: Period = ALL_TIME,
    use_cache: bool = True,
) -> dict[str, Exhibit | Exception]:
    """Make exhibits of one study together; if that fails, one by one, so that each has its own error."""
    make = partial(make_exhibits, lake, params=params, period_ns=period_ns, use_cache=use_cache)
    try:
        return dict(zip(ids, make(ids), strict=True))
    except Exception:
        found: dict[str, Exhibit | Exception] = {}
        for exhibit_id in ids:
            try:
                (found[exhibit_id],) = make([exhibit_id])
            except Exception as error:  # a fault in one study must not stop the other sixty
                found[exhibit_id] = error
        return found


def _run(
    snapshot: Snapshot,
    name: str,
    wanted: list[str],
    typed: Mapping[str, str],
    period: Period,
    use_cache: bool,
    spread: Spread = starmap,
) -> dict[str, Exhibit]:
    """Run one study, in this process or a worker. It reads the lake and writes only to the cache of results."""
    study, facility = STUDIES[name], snapshot.facility
    try:
        values, provenance = _resolved(snapshot, study, typed, period)
    except DataUnavailable:
        _require(snapshot, study, wanted)  # a missing table is the better message
        raise
    if use_cache:
        cached = {exhibit_id: _cached(snapshot, exhibit_id, provenance) for exhibit_id in wanted}
        if all(found is not None for found in cached.values()):
            return {exhibit_id: found for exhibit_id, found in cached.items() if found}
    _require(snapshot, study, wanted)
    source = DataSource.of(snapshot, period)
    source.spread, source.wanted = spread, frozenset(wanted)
    results = {}
    for exhibit in study.run(source, values):
        # The papers' statements are about intervals of their length.
        judged = () if "resolution" in typed else judge_claims(exhibit.id, exhibit.estimates)
        full = replace(
            exhibit,
            title=exhibit.title or exhibit_entry(exhibit.id).title,
            published=exhibit.published or (published(exhibit.id) if STUDIES.is_ours(name) else ()),
            provenance=provenance,
            findings=number_names((*(j.finding for j in judged), *exhibit.findings)),
            caveats=(*simulated_caveat(facility), *exhibit.caveats),
        )
        results[full.id] = full
    for exhibit_id in {*results, *wanted}:
        _cache(snapshot, exhibit_id, provenance, results.get(exhibit_id))
    return results


def _require(snapshot: Snapshot, study: Study, wanted: Sequence[str]) -> None:
    """Raise DataUnavailable if the lake lacks what the study needs."""
    lacks = study.missing(snapshot.filled(study.tables), _sampled(snapshot) if "series" in study.tables else ())
    if lacks:
        raise DataUnavailable(
            f"{', '.join(wanted)}: the lake has {'; '.join(lacks)}.",
            hint="Ingest such files first. `ioweather show` lists the data that each exhibit needs.",
        )


def _sampled(snapshot: Snapshot) -> set[str]:
    """Return the metrics of `series`."""
    return {group.metric for group in snapshot.series()}


def _cache_key(provenance: Provenance) -> str:
    """Return a digest of all that a result depends on."""
    stable = replace(provenance, made_ns=0, lake="")
    return hashlib.sha256(json.dumps(to_jsonable(stable), sort_keys=True).encode()).hexdigest()[:24]


def _cached(snapshot: Snapshot, exhibit_id: str, provenance: Provenance) -> Exhibit | Literal[False] | None:
    """Return a cached exhibit; None if there is none, False if the study made no such exhibit of these data."""
    try:
        body = read_record(snapshot.root, exhibit_id, _cache_key(provenance))
        return body and exhibit_from_json(body)
    except (ValueError, KeyError, TypeError):
        return None


def _cache(snapshot: Snapshot, exhibit_id: str, provenance: Provenance, exhibit: Exhibit | None) -> None:
    """Store a result, or that the study made none. Those of older table versions are useless: the oldest are
    discarded."""
    body = False if exhibit is None else to_jsonable(exhibit)
    write_record(snapshot.root, exhibit_id, _cache_key(provenance), body, most=_MOST_CACHED)
