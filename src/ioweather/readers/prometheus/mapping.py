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
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from ioweather.core.contracts import ReadContext
from ioweather.core.counters.growth import Target
from ioweather.core.counters.lustre_text import identity_of
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, UsageError
from ioweather.core.frames import Frame
from ioweather.core.tables import COMPONENT_KINDS, JOB_OPERATIONS, METRICS, Quality
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.readers.server_counters import series_frame

Labels = Mapping[str, str]
VALUES: Final = ("amount", "counter", "rate", "state")
JOB_FIELDS: Final = ("count", "bytes", "time_ns")
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]\w*)\}")
_PORT: Final = re.compile(r"(.+?)(?::[0-9]{1,5})?")
_KEYS: Final = frozenset(
    {"names", "where", "metric", "system", "kind", "component", "factor", "value", "job", "operation", "field"}
)


class Mapped(NamedTuple):
    """What a series of samples is. `group` identifies its reporter; the counters of one group come together."""

    target: Target
    metric: str
    job: tuple[str, str] | None
    factor: float
    value: str
    group: tuple[str, ...]


@dataclass(frozen=True)
class Expression:
    text: str = ""
    label: str = ""
    match: re.Pattern[str] | None = None
    translated: Mapping[str, str] | None = None
    other: str | None = None

    def of(self, labels: Labels) -> str | None:
        """None where a label is missing, or is none of those that are meant."""
        if not self.label:
            missing = any(not labels.get(name) for name in _PLACEHOLDER.findall(self.text))
            return None if missing else _PLACEHOLDER.sub(lambda found: labels[found[1]], self.text)
        value = labels.get(self.label, "")
        if self.match is not None:
            found = self.match.fullmatch(value)
            if found is None:
                return None
            value = found[1] if self.match.groups else value
        if self.translated is None:
            return value or None
        return self.translated.get(value, self.other)

    @property
    def constants(self) -> Iterable[str]:
        """Every text that it can be, where that is known before."""
        if self.translated is not None:
            return [text for text in (*self.translated.values(), self.other) if text]
        return [self.text] if self.text and not _PLACEHOLDER.search(self.text) else []


@dataclass(frozen=True)
class Rule:
    names: tuple[str, ...]
    system: Expression
    kind: Expression
    component: Expression
    metric: Expression | None = None
    where: Mapping[str, frozenset[str]] = field(default_factory=dict)
    factor: float = 1.0
    value: str = ""
    job: Expression | None = None
    operation: Expression | None = None
    job_field: str = "count"

    def of(self, labels: Labels) -> Mapped | None:
        if any(labels.get(name, "") not in wanted for name, wanted in self.where.items()):
            return None
        system, kind, component = self.system.of(labels), self.kind.of(labels), self.component.of(labels)
        if system is None or component is None or kind not in COMPONENT_KINDS:
            return None
        target = Target(system, kind, component)
        group = (labels.get("instance", ""), labels.get("job", ""), *target)
        if self.job is not None and self.operation is not None:
            job, operation = self.job.of(labels), self.operation.of(labels)
            if job is None or operation is None:
                return None
            return Mapped(target, self.job_field, (job, operation), self.factor, self.value or "counter", group)
        metric = self.metric.of(labels) if self.metric is not None else None
        if metric not in METRICS:
            return None
        value = self.value or ("counter" if METRICS[metric].extensive else "state")
        return Mapped(target, metric, None, self.factor, value, group)


class Mappings:
    """Rules by the name of a metric; of those that fit, the first counts."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules: dict[str, list[Rule]] = {}
        for rule in rules:
            for name in rule.names:
                self._rules.setdefault(name, []).append(rule)

    @property
    def names(self) -> list[str]:
        return sorted(self._rules)

    def of(self, name: str, labels: Labels, host: str | None = None) -> Mapped | None:
        """What a series is; None where no rule fits."""
        rules = self._rules.get(name)
        if rules is None:
            return None
        whole = {**labels, "__name__": name, "host": _host(labels) or host or ""}
        return next((mapped for rule in rules if (mapped := rule.of(whole)) is not None), None)


def _host(labels: Labels) -> str:
    found = _PORT.fullmatch(labels.get("instance") or labels.get("host") or "")
    return found[1] if found else ""


def _require(holds: object, message: str, hint: str = "") -> None:
    if not holds:
        raise UsageError(message, hint=hint)


def _refuse_unknown(given: Iterable[str], known: Iterable[str], where: str) -> None:
    unknown = sorted(set(given) - set(known))
    _require(not unknown, f"{where}: there is no {', '.join(unknown)}.", f"There are: {', '.join(sorted(known))}.")


def read_mapping(document: Mapping[str, Any], where: str) -> list[Rule]:
    """The rules of one mapping file; a mistake in it is a UsageError that says where."""
    _refuse_unknown(document, ("title", "defaults", "metric"), where)
    entries, defaults = document.get("metric"), document.get("defaults", {})
    is_listed = isinstance(entries, list) and entries and all(isinstance(entry, Mapping) for entry in entries)
    _require(is_listed, f"{where} has no [[metric]].", "See docs/how-to/prometheus-in.md.")
    _require(isinstance(defaults, Mapping), f"{where}: [defaults] should be a table.")
    numbered = enumerate(entries or (), start=1)
    return [_rule({**defaults, **entry}, f"{where}, [[metric]] {number}") for number, entry in numbered]


def _rule(entry: Mapping[str, Any], where: str) -> Rule:
    _refuse_unknown(entry, _KEYS, where)
    names, given, factor = entry.get("names"), entry.get("where", {}), entry.get("factor", 1)
    is_named = isinstance(names, list) and names and all(isinstance(name, str) and name for name in names)
    _require(is_named, f"{where}: `names` should be a list of names of metrics.")
    _require(isinstance(given, Mapping), f"{where}: `where` should be a table of labels.")
    is_number = isinstance(factor, int | float) and not isinstance(factor, bool) and 0 < factor < 1e30
    _require(is_number, f"{where}: `factor` should be a number above 0.")
    needed = ("system", "kind", "component", *(("job", "operation") if "job" in entry else ("metric",)))
    for name in needed:
        _require(name in entry, f"{where}: `{name}` is missing.")
    rule = Rule(
        names=tuple(names or ()),
        where={
            name: frozenset(map(str, wanted if isinstance(wanted, list) else [wanted]))
            for name, wanted in given.items()
        },
        factor=float(factor),
        value=entry.get("value", ""),
        job_field=entry.get("field", "count"),
        **{name: _expression(entry[name], f"{where}, {name}") for name in needed},
    )
    for metric in () if rule.metric is None else rule.metric.constants:
        _require(
            metric in METRICS, f"{where}: {metric!r} is no metric of ours.", "docs/reference/tables.md lists them."
        )
        is_extensive = METRICS[metric].extensive
        _require(rule.value != "state" or not is_extensive, f"{where}: {metric} adds up, and is no state.")
        fits = rule.value not in ("amount", "rate") or is_extensive
        _require(fits, f"{where}: {metric} does not add up, and is no {rule.value}.")
    for kind in rule.kind.constants:
        _require(kind in COMPONENT_KINDS, f"{where}: {kind!r} is no kind.", f"There are: {', '.join(COMPONENT_KINDS)}.")
    _require(rule.value in ("", *VALUES), f"{where}: `value` is one of {', '.join(VALUES)}.")
    _require(rule.job_field in JOB_FIELDS, f"{where}: `field` is one of {', '.join(JOB_FIELDS)}.")
    return rule


def _expression(given: Any, where: str) -> Expression:
    if isinstance(given, str) and given:
        return Expression(text=given)
    is_table = isinstance(given, Mapping) and isinstance(given.get("label"), str) and given["label"]
    _require(is_table, f"{where}: expected a text, or a table with a `label`.")
    _refuse_unknown(given, ("label", "match", "map", "other"), where)
    translated = given.get("map")
    is_map = isinstance(translated, Mapping) and all(isinstance(text, str) for text in translated.values())
    _require(translated is None or is_map, f"{where}: `map` should be a table of texts.")
    try:
        match = re.compile(given["match"]) if "match" in given else None
    except (re.error, TypeError) as error:
        raise UsageError(f"{where}: `match` is no pattern: {error}.") from None
    return Expression("", given["label"], match, translated, given.get("other"))


@cache
def shipped() -> Mapping[str, tuple[str, tuple[Rule, ...]]]:
    """Title and rules of every mapping that comes with ioweather, by name."""
    found = {}
    for file in sorted(resources.files(__package__).joinpath("mappings").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            document = tomllib.loads(file.read_text(encoding="utf-8"))
            found[file.name.removesuffix(".toml")] = (str(document["title"]), tuple(read_mapping(document, file.name)))
    return found


@cache
def _all_shipped() -> Mappings:
    return Mappings(rule for _, rules in shipped().values() for rule in rules)


def mappings_of(own: Mapping[str, Any] | None) -> Mappings:
    """A person's own rules come first; names that they do not have are read as shipped."""
    if own is None:
        return _all_shipped()
    return Mappings([*read_mapping(own, "The mapping"), *(rule for _, rules in shipped().values() for rule in rules)])


_SLOW: Final = frozenset({"capacity_bytes", "free_bytes", "capacity_files", "free_files", "client_count"})
_LONGEST_GAP: Final = 10  # times the interval before

_JobPlace: TypeAlias = tuple[int, int, Target, str, str]  # start, end, target, job, operation


@dataclass(slots=True)
class _Counter:
    """As it was seen last; `grown` since the row began. `step_ns`: how long before that it was seen."""

    at_ns: int
    value: float
    since_ns: int
    grown: float = 0.0
    fell: bool = False
    step_ns: int = 0


@dataclass(slots=True)
class _Group:
    """When a group was seen last, and before that; and where the rows of then began."""

    at_ns: int
    since_ns: int
    before_ns: int | None = None
    before_since_ns: int | None = None

    def see(self, time_ns: int, *, begins: bool) -> None:
        if time_ns > self.at_ns:
            self.before_ns, self.before_since_ns = self.at_ns, self.since_ns
            self.at_ns = time_ns
            self.since_ns = time_ns if begins else self.since_ns

    def seen_before(self, time_ns: int) -> tuple[int, int] | None:
        """(moment, beginning of its row) of the last time before."""
        if self.at_ns < time_ns:
            return self.at_ns, self.since_ns
        if self.before_ns is None or self.before_since_ns is None or self.before_ns >= time_ns:
            return None
        return self.before_ns, self.before_since_ns


@dataclass
class Amounts:
    """Samples come in the order of time. `by_minute`: rows begin at the first sample of a minute, wherever a
    reading begins; otherwise every sample ends a row."""

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

    def add(self, key: str, mapped: Mapped, time_ns: int, value: float) -> None:
        """Add a sample of the series `key`. NaN and infinity are ignored."""
        if not abs(value) < 1e300:
            return
        if mapped.value == "state":
            self._keep(key, mapped, time_ns, value * mapped.factor)
        else:
            self._count(key, mapped, time_ns, value * mapped.factor)

    def _count(self, key: str, mapped: Mapped, time_ns: int, value: float) -> None:
        group = self._groups.get(mapped.group)
        if group is None:
            group = self._groups[mapped.group] = _Group(time_ns, time_ns)
        elif time_ns > group.at_ns:
            group.see(time_ns, begins=self._begins(group.at_ns, time_ns))
        counter = self._counters.get(key)
        if counter is not None and time_ns <= counter.at_ns:
            self.late += time_ns < counter.at_ns
            return
        seen = group.seen_before(time_ns) if mapped.job is not None and mapped.value == "counter" else None
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
        ends = self._begins(counter.at_ns, time_ns)
        counter.at_ns, counter.value = time_ns, value
        if ends:
            self._row(mapped, counter)

    def _begins(self, before_ns: int, time_ns: int) -> bool:
        return not self.by_minute or before_ns // MINUTE_NS != time_ns // MINUTE_NS

    def _row(self, mapped: Mapped, counter: _Counter) -> None:
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

    def _keep(self, key: str, mapped: Mapped, time_ns: int, value: float) -> None:
        span = HOUR_NS if mapped.metric in _SLOW else MINUTE_NS
        if self._stored_spans.get(key, -1) >= time_ns // span:
            return
        self._stored_spans[key] = time_ns // span
        start = time_ns // MINUTE_NS * MINUTE_NS
        place = (start, start + MINUTE_NS, mapped.target, mapped.metric)
        self._series[place] = self._series.get(place, (0.0, 0))[0] + value, 0

    @property
    def waiting(self) -> int:
        return len(self._series) + len(self._jobs)

    def rows(self) -> Iterator[tuple[str, Frame]]:
        """What came together since the last time."""
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
        self._series, self._jobs = {}, {}

    def state(self) -> dict[str, Any]:
        """To go on from, as JSON has it. Rows that wait are not in it."""
        return {
            "counters": {key: list(asdict(counter).values()) for key, counter in self._counters.items()},
            "groups": [[list(name), *asdict(group).values()] for name, group in self._groups.items()],
            "kept": self._stored_spans,
        }

    def forget(self, before_ns: int) -> None:
        """Counters and groups that were not seen since."""
        self._counters = {key: counter for key, counter in self._counters.items() if counter.at_ns >= before_ns}
        self._groups = {name: group for name, group in self._groups.items() if group.at_ns >= before_ns}
        self.shown_once &= self._counters.keys()

    def go_on(self, state: dict[str, Any]) -> None:
        self._counters = {key: _Counter(*values) for key, values in state["counters"].items()}
        self._groups = {tuple(name): _Group(*values) for name, *values in state["groups"]}
        self._stored_spans = dict(state["kept"])


def _job_frame(rows: Iterable[tuple[_JobPlace, dict[str, float]]], cluster: str | None) -> Frame:
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
_OWN: Final = "A mapping of your own says what they are: docs/how-to/prometheus-in.md."
Pieces = Generator[tuple[str, Frame], None, str | None]


class Known:
    """What each series is, looked up once; counts series without a rule or a host."""

    def __init__(self, mappings: Mappings, context: ReadContext) -> None:
        self._mappings, self._context = mappings, context
        self._mapped: dict[str, Mapped | None] = {}
        self.without_host = self.unnamed = 0

    def of(self, key: str, name: str, labels: dict[str, str]) -> Mapped | None:
        if key in self._mapped:
            return self._mapped[key]
        host, system = self._context.host, self._context.system
        mapped = self._mappings.of(name, labels, host)
        if mapped is None:
            needs_host = host is None and self._mappings.of(name, labels, "host") is not None
            self.without_host += needs_host
            self.unnamed += not needs_host
        elif system is not None and mapped.target.kind == "host":
            mapped = mapped._replace(target=mapped.target._replace(system=system))
        self._mapped[key] = mapped
        return mapped


class Taking:
    """The rows of one reading. `hint`: how to record more than one look; `looks` what is counted of them."""

    def __init__(self, path: Path, context: ReadContext, hint: str) -> None:
        self.path, self.context, self._hint = path, context, hint
        self.amounts = Amounts(cluster=context.cluster)
        self.known = Known(mappings_of(context.mapping), context)
        self.made = 0
        self.notes: list[str] = []

    def add(self, key: str, name: str, labels: dict[str, str], time_ns: int, value: float) -> None:
        if (mapped := self.known.of(key, name, labels)) is not None:
            self.amounts.add(key, mapped, time_ns, value)

    def full(self) -> Iterator[tuple[str, Frame]]:
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
            "counter(s) shown once, where two looks give amounts": once,
            "difference(s) over a gap of more than ten times the usual interval": self.amounts.gaps,
            "series that no mapping names": self.known.unnamed,
            "series of an unknown host (give --host)": self.known.without_host,
        }
        said = "; ".join(f"{count} {what}" for what, count in left.items() if count)
        if self.amounts.late:
            raise CorruptInput(
                f"{self.path}: {self.amounts.late:,} sample(s) stand behind later ones of their series, and were left "
                "out.",
                hint="Put the samples into the order of time.",
            )
        if not self.made:
            if self.known.without_host and not once:
                raise SourceError(f"{self.path} does not say which host it is of.", hint="Give --host.")
            raise EmptyInput(
                f"{self.path} holds {content} and nothing to take{f' ({said})' if said else ''}.",
                hint=self._hint if once else _OWN,
            )
        parts = [*self.notes, *([f"left out: {said}"] if said else [])]
        return f"{self.path}: {'; '.join(parts)}." if parts else None
