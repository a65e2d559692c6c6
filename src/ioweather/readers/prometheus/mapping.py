"""Which metric of ours a labelled sample is: mapping files in TOML, those shipped here and a person's own.

    title = "the exporter"
    [defaults]                      # of every [[metric]] below
    system = "{fs}"
    [[metric]]
    names = ["fs_read_bytes_total"]
    where = { kind = "ost" }        # the labels that it must have: a value, or one of a list
    metric = "read_bytes"           # of the table `series`
    kind = "ost"
    component = "{target}"
    factor = 1024

`metric`, `system`, `kind`, `component`, `job` and `operation` are texts with {labels}, or tables: { label = "target",
match = "(.+)-OST.*" } is the first group of a label that matches, and `map = {...}` with `other = "..."` translate
it. {host} is the label `instance` (or `host`) without its port, else --host; `__name__` is the name of the metric.
With `job` and `operation` a rule fills `job_operations`, and `field` is count, bytes or time_ns. `value` says what
the numbers are: "counter" (grows), "amount" (since the sample before), "rate" (in a second) or "state" (as it is).
Without it, a metric that adds up is a counter and any other a state. A state of a counter is its growth in a second:
busy_ratio of a counter of seconds.

Samples become rows: counters become what they grew by, states stay as they are. A counter that fell was restarted: it
has grown by at least what it shows, and the row says so (RESET). The first value of a counter is no growth, and
neither is the first after a gap of ten times its usual interval, because the clock may have been set. Entries of jobs
differ: a server makes one, at zero, when a job begins. A state is stored for the minute in which it was read; how
full a target is, once an hour.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from ioweather.core.contracts import ReadContext
from ioweather.core.counters.growth import Target
from ioweather.core.counters.lustre_text import identity_of
from ioweather.core.errors import CorruptInput, SourceError, UsageError
from ioweather.core.frames import Frame
from ioweather.core.tables import COMPONENT_KINDS, JOB_OPERATIONS, METRICS, TABLES, Quality
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS
from ioweather.readers.server_counters import series_frame
from ioweather.readers.text_files import shown_counts

Labels = Mapping[str, str]
VALUES: Final = ("amount", "counter", "rate", "state")
JOB_FIELDS: Final = ("count", "bytes", "time_ns")
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]\w*)\}")
# node_exporter's metric whose labels name the host.
_HOST_INFO: Final = "node_uname_info"
_PORT: Final = re.compile(r"(.+?)(?::[0-9]{1,5})?")
_KEYS: Final = frozenset(
    {"names", "where", "metric", "system", "kind", "component", "factor", "value", "job", "operation", "field"}
)


class Mapped(NamedTuple):
    """What a series of samples is: the target and metric it measures, the factor to our units, and what its numbers are
    (`value`: counter, amount, rate or state; name: `metric` is the name of the host). `group` identifies the reporter,
    which sends its counters together."""

    target: Target
    metric: str
    job: tuple[str, str] | None
    factor: float
    value: str
    group: tuple[str, ...]


# A text made of labels; None where a label is missing or does not match.
_LabelText: TypeAlias = Callable[[Labels], str | None]


@dataclass(frozen=True)
class _Rule:
    """One [[metric]] of a mapping file."""

    names: tuple[str, ...]
    system: _LabelText
    kind: _LabelText
    component: _LabelText
    metric: _LabelText | None = None
    where: Mapping[str, frozenset[str]] = field(default_factory=dict)
    factor: float = 1.0
    value: str = ""
    job: _LabelText | None = None
    operation: _LabelText | None = None
    job_field: str = "count"

    def apply(self, labels: Labels) -> Mapped | None:
        """What a series with these labels is; None where the rule does not fit."""
        if any(labels.get(name, "") not in wanted for name, wanted in self.where.items()):
            return None
        system, kind, component = self.system(labels), self.kind(labels), self.component(labels)
        if system is None or component is None or kind not in COMPONENT_KINDS:
            return None
        target = Target(system, kind, component)
        group = (labels.get("instance", ""), labels.get("job", ""), *target)
        if self.job is not None and self.operation is not None:
            job, operation = self.job(labels), self.operation(labels)
            if job is None or operation is None:
                return None
            return Mapped(target, self.job_field, (job, operation), self.factor, self.value or "counter", group)
        metric = self.metric(labels) if self.metric is not None else None
        if metric not in METRICS:
            return None
        value = self.value or ("counter" if METRICS[metric].extensive else "state")
        return Mapped(target, metric, None, self.factor, value, group)


class Mappings:
    """What each series is, by a site's own rules, then by the shipped ones: the first rule that fits counts. Counts the
    series without a rule (`unnamed`) and those whose host is not known."""

    def __init__(self, own: Mapping[str, Any] | None = None, context: ReadContext | None = None) -> None:
        self._context = context or ReadContext()
        self._rules: dict[str, list[_Rule]] = {}
        self._mapped: dict[str, Mapped | None] = {}
        self.without_host = self.unnamed = 0
        site = [] if own is None else read_mapping(own, "The mapping")
        for rule in (*site, *(rule for _, rules in shipped().values() for rule in rules)):
            for name in rule.names:
                self._rules.setdefault(name, []).append(rule)

    @property
    def names(self) -> list[str]:
        """Names of the metrics that are read."""
        return sorted({*self._rules, _HOST_INFO})

    def find(self, key: str, name: str, labels: Labels) -> Mapped | None:
        """Return target and metric of a series by the first rule that fits, cached by `key`, which names the series.
        None where no rule fits: counted in `without_host` if one would fit with a host name, else in `unnamed`."""
        if key not in self._mapped:
            host, system = self._context.host, self._context.system
            mapped = self._apply(name, labels, host)
            if mapped is None:
                needs_host = host is None and self._apply(name, labels, "host") is not None
                self.without_host += needs_host
                self.unnamed += not needs_host
            elif system is not None and mapped.target.kind == "host":
                mapped = mapped._replace(target=mapped.target._replace(system=system))
            self._mapped[key] = mapped
        return self._mapped[key]

    def _apply(self, name: str, labels: Labels, host: str | None) -> Mapped | None:
        """What the first rule says that fits; `host` is the reporter where the labels name none."""
        if name not in self._rules and name != _HOST_INFO:
            return None
        reporter = _PORT.fullmatch(labels.get("instance") or labels.get("host") or "")
        whole = {**labels, "__name__": name, "host": reporter[1] if reporter else host or ""}
        if name == _HOST_INFO:
            return _name_of_host(whole)
        return next((mapped for rule in self._rules[name] if (mapped := rule.apply(whole)) is not None), None)


def _name_of_host(labels: Labels) -> Mapped | None:
    """The name of a host that is labelled by an address, from `node_uname_info`; None if the label is its name."""
    name, host = labels.get("nodename", "").partition(".")[0], labels["host"]
    if not name or not host or host.partition(".")[0] == name:
        return None
    return Mapped(Target(host, "host", host), name, None, 1.0, "name", (host,))


def read_mapping(document: Mapping[str, Any], where: str) -> list[_Rule]:
    """The rules of one mapping file; a mistake in it is a UsageError that says where."""
    entries, rules = document.get("metric"), list[_Rule]()
    if not isinstance(entries, list) or not entries or document.keys() - {"title", "defaults", "metric"}:
        hint = "See docs/how-to/prometheus-in.md."
        raise UsageError(f"{where} needs [[metric]], and may have `title` and [defaults].", hint=hint)
    for number, entry in enumerate(entries, start=1):
        try:
            rules.append(_rule({**document.get("defaults", {}), **entry}))
        except KeyError as error:
            raise UsageError(f"{where}, [[metric]] {number}: {error} is missing.") from None
        except (TypeError, ValueError, re.error) as error:
            raise UsageError(f"{where}, [[metric]] {number}: {error}.") from None
    return rules


def _rule(entry: Mapping[str, Any]) -> _Rule:
    """The rule of one [[metric]]. Raises KeyError, TypeError, ValueError or re.error for a mistake in it."""
    if unknown := sorted(entry.keys() - _KEYS):
        raise ValueError(f"unknown key {', '.join(unknown)}; keys: {', '.join(sorted(_KEYS))}")
    given, factor = entry.get("where", {}), float(entry.get("factor", 1))
    if not isinstance(entry["names"], list) or not isinstance(given, Mapping):
        raise ValueError("`names` must be a list of metric names, and `where` a table of labels")
    if not 0 < factor < 1e30:
        raise ValueError("`factor` must be above 0")
    needed = ("system", "kind", "component", *(("job", "operation") if "job" in entry else ("metric",)))
    texts = {name: _label_text(entry[name], name) for name in needed}
    value, job_field = entry.get("value", ""), entry.get("field", "count")
    metrics = texts["metric"][1] if "metric" in texts else []
    for name, found, known in (
        ("value", [value], ("", *VALUES)),
        ("field", [job_field], JOB_FIELDS),
        ("kind", texts["kind"][1], COMPONENT_KINDS),
        ("metric", metrics, METRICS),
    ):
        if wrong := [text for text in found if text not in known]:
            raise ValueError(f"unknown {name} {wrong[0]!r}; use one of {', '.join(filter(None, known))}")
    for metric in metrics:
        if value in (("state",) if METRICS[metric].extensive else ("amount", "rate")):
            kind = "an amount" if METRICS[metric].extensive else "a state"
            raise ValueError(f"{metric} is {kind}, not a {value}")
    return _Rule(
        names=tuple(entry["names"]),
        where={
            name: frozenset(map(str, wanted if isinstance(wanted, list) else [wanted]))
            for name, wanted in given.items()
        },
        factor=factor,
        value=value,
        job_field=job_field,
        **{name: text for name, (text, _) in texts.items()},
    )


def _label_text(given: Any, name: str) -> tuple[_LabelText, list[str]]:
    """The function that makes a text of labels, and the texts that it can give where they are known in advance."""
    if isinstance(given, str) and given:
        needed = _PLACEHOLDER.findall(given)

        def fill(labels: Labels) -> str | None:
            missing = any(not labels.get(name) for name in needed)
            return None if missing else _PLACEHOLDER.sub(lambda found: labels[found[1]], given)

        return fill, [] if needed else [given]
    if not isinstance(given, Mapping) or "label" not in given or given.keys() - {"label", "match", "map", "other"}:
        raise ValueError(f"`{name}` must be text, or a table with a `label` (also match, map, other)")
    translated, other = given.get("map"), given.get("other")
    pattern = re.compile(given.get("match", "(.*)"), re.DOTALL if "match" not in given else 0)

    def translate(labels: Labels) -> str | None:
        """The part of the label that matches, translated; None without a match or a translation."""
        found = pattern.fullmatch(labels.get(given["label"], ""))
        if found is None:
            return None
        value = found[1] if pattern.groups else found[0]
        return value or None if translated is None else translated.get(value, other)

    return translate, [] if translated is None else [text for text in (*translated.values(), other) if text]


@cache
def shipped() -> Mapping[str, tuple[str, tuple[_Rule, ...]]]:
    """Title and rules of every mapping that comes with ioweather, by name."""
    found = {}
    for file in sorted(resources.files(__package__).joinpath("mappings").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            document = tomllib.loads(file.read_text(encoding="utf-8"))
            found[file.name.removesuffix(".toml")] = (str(document["title"]), tuple(read_mapping(document, file.name)))
    return found


_SLOW: Final = frozenset({"capacity_bytes", "free_bytes", "capacity_files", "free_files", "client_count"})
_LONGEST_GAP: Final = 10  # times the interval before

_JobPlace: TypeAlias = tuple[int, int, Target, str, str]  # start, end, target, job, operation


@dataclass(slots=True)
class _Counter:
    """The last sample of a counter, `step_ns` after the one before, and its growth since its row began at since_ns."""

    at_ns: int
    value: float
    since_ns: int
    grown: float = 0.0
    fell: bool = False
    step_ns: int = 0


@dataclass(slots=True)
class _Group:
    """The times of a reporter's last two sets of samples, and where its rows began then."""

    at_ns: int
    since_ns: int
    before_ns: int | None = None
    before_since_ns: int | None = None

    def add_time(self, time_ns: int, *, begins: bool) -> None:
        """Note samples at a time; `begins`: a row of the group begins there."""
        if time_ns > self.at_ns:
            self.before_ns, self.before_since_ns = self.at_ns, self.since_ns
            self.at_ns = time_ns
            self.since_ns = time_ns if begins else self.since_ns

    def last_before(self, time_ns: int) -> tuple[int, int] | None:
        """The last time before, and where its row began."""
        if self.at_ns < time_ns:
            return self.at_ns, self.since_ns
        if self.before_ns is None or self.before_since_ns is None or self.before_ns >= time_ns:
            return None
        return self.before_ns, self.before_since_ns


@dataclass
class Amounts:
    """Makes rows of samples, which come in the order of time. With `by_minute` rows begin at the first sample of a
    minute, wherever reading begins; otherwise every sample ends a row."""

    by_minute: bool = False
    cluster: str | None = None
    shown_once: set[str] = field(default_factory=set)
    gaps: int = 0
    late: int = 0  # samples behind later ones of their series
    _counters: dict[str, _Counter] = field(default_factory=dict)
    _groups: dict[tuple[str, ...], _Group] = field(default_factory=dict)
    _stored_spans: dict[str, int] = field(default_factory=dict)
    _series: dict[tuple[int, int, Target, str], tuple[float, int]] = field(default_factory=dict)
    _jobs: dict[_JobPlace, dict[str, float]] = field(default_factory=dict)
    _names: dict[tuple[str, str], int] = field(default_factory=dict)  # day on which a label stood for a host

    def add(self, key: str, mapped: Mapped, time_ns: int, value: float) -> None:
        """Add a sample of the series `key`. NaN and infinity are ignored."""
        if not abs(value) < 1e300:
            return
        if mapped.value == "name":
            self._names[mapped.target.name, mapped.metric] = time_ns // DAY_NS * DAY_NS
        elif mapped.value == "state":
            self._add_state(key, mapped, time_ns, value * mapped.factor)
        else:
            self._add_counter(key, mapped, time_ns, value * mapped.factor)

    def _add_counter(self, key: str, mapped: Mapped, time_ns: int, value: float) -> None:
        """Add the growth since the last sample of a counter, an amount or a rate."""
        group = self._groups.get(mapped.group)
        if group is None:
            group = self._groups[mapped.group] = _Group(time_ns, time_ns)
        elif time_ns > group.at_ns:
            group.add_time(time_ns, begins=self._begins_row(group.at_ns, time_ns))
        counter = self._counters.get(key)
        if counter is not None and time_ns <= counter.at_ns:
            self.late += time_ns < counter.at_ns
            return
        seen = group.last_before(time_ns) if mapped.job is not None and mapped.value == "counter" else None
        gone = counter is not None and seen is not None and counter.at_ns < seen[0]
        step_ns = 0 if counter is None else time_ns - counter.at_ns
        gap = counter is not None and step_ns > _LONGEST_GAP * max(counter.step_ns, MINUTE_NS)
        if counter is None or gone or gap:
            if seen is None or gap:
                self._counters[key] = _Counter(time_ns, value, time_ns, step_ns=step_ns)
                self.gaps += gap
                if counter is None:
                    self.shown_once.add(key)
                return
            counter = self._counters[key] = _Counter(seen[0], 0.0, seen[1])  # servers forget a job that rests
        counter.step_ns = step_ns
        self.shown_once.discard(key)
        fell = mapped.value == "counter" and value < counter.value
        if mapped.value == "counter":
            counter.grown += value if fell else value - counter.value
        else:
            counter.grown += value * ((time_ns - counter.at_ns) / NS if mapped.value == "rate" else 1)
        counter.fell |= fell
        ends = self._begins_row(counter.at_ns, time_ns)
        counter.at_ns, counter.value = time_ns, value
        if ends:
            self._end_row(mapped, counter)

    def _begins_row(self, before_ns: int, time_ns: int) -> bool:
        return not self.by_minute or before_ns // MINUTE_NS != time_ns // MINUTE_NS

    def _end_row(self, mapped: Mapped, counter: _Counter) -> None:
        """Make the row that ends with the last sample of the counter."""
        start, end, flag = counter.since_ns, counter.at_ns, int(Quality.RESET) if counter.fell else 0
        if mapped.job is not None:
            if counter.grown > 0:
                row = self._jobs.setdefault((start, end, mapped.target, *mapped.job), {"quality": 0})
                row[mapped.metric] = row.get(mapped.metric, 0.0) + counter.grown
                row["quality"] = int(row["quality"]) | flag
        else:
            is_state = not METRICS[mapped.metric].extensive
            amount = counter.grown / ((end - start) / NS) if is_state else counter.grown
            known, flags = self._series.get((start, end, mapped.target, mapped.metric), (0.0, 0))
            self._series[start, end, mapped.target, mapped.metric] = known + amount, flags | flag
        counter.since_ns, counter.grown, counter.fell = end, 0.0, False

    def _add_state(self, key: str, mapped: Mapped, time_ns: int, value: float) -> None:
        """Add the first sample of a state in each minute, or each hour if it changes slowly."""
        span = HOUR_NS if mapped.metric in _SLOW else MINUTE_NS
        if self._stored_spans.get(key, -1) >= time_ns // span:
            return
        self._stored_spans[key] = time_ns // span
        start = time_ns // MINUTE_NS * MINUTE_NS
        place = (start, start + MINUTE_NS, mapped.target, mapped.metric)
        self._series[place] = self._series.get(place, (0.0, 0))[0] + value, 0

    @property
    def waiting(self) -> int:
        """Number of rows that `rows` would give."""
        return len(self._series) + len(self._jobs)

    def rows(self) -> Iterator[tuple[str, Frame]]:
        """Frames of the rows that ended since the last call."""
        if self._series:
            yield (
                "series",
                series_frame(
                    (start, end - start, *target, metric, value, flag)
                    for (start, end, target, metric), (value, flag) in self._series.items()
                ),
            )
        if self._jobs:
            yield "job_operations", _job_frame(self._jobs.items(), self.cluster)
        if self._names:
            yield "components", _host_frame(self._names)
        self._series, self._jobs, self._names = {}, {}, {}


def _host_frame(names: Mapping[tuple[str, str], int]) -> Frame:
    """Rows of `components`: the name of each host that samples label otherwise."""
    labels = [label for label, _ in names]
    return TABLES["components"].frame(
        system=labels,
        kind=["host"] * len(labels),
        component=labels,
        valid_from_ns=[*names.values()],
        server=[name for _, name in names],
    )


def _job_frame(rows: Iterable[tuple[_JobPlace, dict[str, float]]], cluster: str | None) -> Frame:
    """Rows of `job_operations`."""
    found: list[dict[str, Any]] = []
    for (start, end, target, job, operation), amounts in rows:
        identity = identity_of(job)
        found.append(
            {
                "start_ns": start,
                "interval_ns": end - start,
                "job_key": job,
                "operation": operation,
                "count": 0,
                "system": target.system,
                "component_kind": target.kind,
                "component": target.name,
                **identity,
                "cluster": cluster if identity["job_id"] is not None else None,
                **{name: round(amount) for name, amount in amounts.items()},
            }
        )
    return JOB_OPERATIONS.frame_of(found)


_FRAME_ROWS: Final = 50_000
_OWN: Final = "Write a mapping for them: see docs/how-to/prometheus-in.md."
Pieces = Generator[tuple[str, Frame], None, str | None]


class SampleRows:
    """Collects the samples of a file and makes rows of them. `hint` says how to record more than one scrape."""

    def __init__(self, path: Path, context: ReadContext, hint: str) -> None:
        self.path, self.context, self._hint = path, context, hint
        self.amounts = Amounts(cluster=context.cluster)
        self.mappings = Mappings(context.mapping, context)
        self.made = 0
        self.notes: list[str] = []

    def add(self, key: str, name: str, labels: dict[str, str], time_ns: int, value: float) -> None:
        """Add a sample, if a mapping names its series."""
        if (mapped := self.mappings.find(key, name, labels)) is not None:
            self.amounts.add(key, mapped, time_ns, value)

    def full_frames(self) -> Iterator[tuple[str, Frame]]:
        """Frames of the rows so far, if they are enough."""
        if self.amounts.waiting >= _FRAME_ROWS:
            yield from self._rows()

    def _rows(self) -> Iterator[tuple[str, Frame]]:
        for table, frame in self.amounts.rows():
            self.made += frame.rows
            yield table, frame

    def finish(self, content: str) -> Pieces:
        """Yield the last rows; raise if there were none. `content` describes the contents of the file in that error."""
        yield from self._rows()
        once = len(self.amounts.shown_once)
        left = {
            "counter(s) with only one sample": once,
            "difference(s) across a gap of more than ten intervals": self.amounts.gaps,
            "series without a mapping": self.mappings.unnamed,
            "series without a host (use --host)": self.mappings.without_host,
        }
        said = shown_counts(left)
        if self.amounts.late:
            raise CorruptInput(
                f"{self.path}: skipped {self.amounts.late:,} sample(s) that are not in time order.",
                hint="Sort the samples by time.",
            )
        if not self.made:
            if self.mappings.without_host and not once:
                raise SourceError(f"{self.path} contains no host name.", hint="Use --host.")
            raise SourceError(
                f"{self.path} has {content} but no usable data{f' ({said})' if said else ''}.",
                hint=self._hint if once else _OWN,
                kind="EmptyInput",
            )
        parts = [*self.notes, *([f"skipped: {said}"] if said else [])]
        return f"{self.path}: {'; '.join(parts)}." if parts else None
