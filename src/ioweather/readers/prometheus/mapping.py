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
match = "(.+)-OST.*" } is the first group of a label that matches, and `map = {...}` with `other = "..."` translate it.
{host} is the label `instance` (or `host`) without its port, else --host; `__name__` is the name of the metric. With
`job` and `operation` a rule fills `job_operations`, and `field` is count, bytes or time_ns. `value` says what the
numbers are: "counter" (grows), "amount" (since the sample before), "rate" (in a second) or "state" (as it is). Without
it, a metric that adds up is a counter and any other a state. A state of a counter is its growth in a second: busy_ratio
of a counter of seconds.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple

from ioweather.core.counters.growth import Target
from ioweather.core.errors import UsageError
from ioweather.core.tables.schema import COMPONENT_KINDS
from ioweather.core.tables.series import METRICS

Labels = Mapping[str, str]
VALUES: Final = ("amount", "counter", "rate", "state")
JOB_FIELDS: Final = ("count", "bytes", "time_ns")
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]\w*)\}")
_PORT: Final = re.compile(r"(.+?)(?::[0-9]{1,5})?")
_KEYS: Final = frozenset(
    {"names", "where", "metric", "system", "kind", "component", "factor", "value", "job", "operation", "field"}
)


class Mapped(NamedTuple):
    """What a series of samples is. `group` tells apart who reported it; the counters of one group come together."""

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
    metric: Expression | None
    system: Expression
    kind: Expression
    component: Expression
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
        """What a series is; None of those that nobody needs."""
        rules = self._rules.get(name)
        if rules is None:
            return None
        whole = {**labels, "__name__": name, "host": _host(labels) or host or ""}
        return next((mapped for rule in rules if (mapped := rule.of(whole)) is not None), None)

    def needs_host(self, name: str, labels: Labels) -> bool:
        """Whether a series would be known if its host were."""
        return self.of(name, labels) is None and self.of(name, labels, "host") is not None


def _host(labels: Labels) -> str:
    found = _PORT.fullmatch(labels.get("instance") or labels.get("host") or "")
    return found[1] if found else ""


def read_mapping(document: Mapping[str, Any], where: str) -> list[Rule]:
    """The rules of one mapping file; a mistake in it is a UsageError that says where."""
    unknown = sorted(set(document) - {"title", "defaults", "metric"})
    if unknown:
        raise UsageError(f"{where} has an unknown part {unknown[0]!r}.", hint="There are: title, defaults, metric.")
    entries = document.get("metric")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, Mapping) for entry in entries):
        raise UsageError(f"{where} has no [[metric]].", hint="See docs/how-to/prometheus-in.md.")
    defaults = document.get("defaults", {})
    if not isinstance(defaults, Mapping):
        raise UsageError(f"{where}: [defaults] should be a table.")
    return [
        _rule({**defaults, **entry}, f"{where}, [[metric]] {number}") for number, entry in enumerate(entries, start=1)
    ]


def _rule(entry: Mapping[str, Any], where: str) -> Rule:
    unknown = sorted(set(entry) - _KEYS)
    if unknown:
        raise UsageError(f"{where}: there is no {unknown[0]!r}.", hint=f"There are: {', '.join(sorted(_KEYS))}.")
    names = entry.get("names")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise UsageError(f"{where}: `names` should be a list of names of metrics.")
    is_job = "job" in entry
    for needed in ("system", "kind", "component", *(("operation",) if is_job else ("metric",))):
        if needed not in entry:
            raise UsageError(f"{where}: `{needed}` is missing.")
    rule = Rule(
        names=tuple(names),
        metric=None if is_job else _expression(entry["metric"], f"{where}, metric"),
        system=_expression(entry["system"], f"{where}, system"),
        kind=_expression(entry["kind"], f"{where}, kind"),
        component=_expression(entry["component"], f"{where}, component"),
        where=_conditions(entry.get("where", {}), where),
        factor=_factor(entry.get("factor", 1), where),
        value=entry.get("value", ""),
        job=_expression(entry["job"], f"{where}, job") if is_job else None,
        operation=_expression(entry["operation"], f"{where}, operation") if is_job else None,
        job_field=entry.get("field", "count"),
    )
    _check(rule, where)
    return rule


def _check(rule: Rule, where: str) -> None:
    for metric in () if rule.metric is None else rule.metric.constants:
        if metric not in METRICS:
            raise UsageError(f"{where}: {metric!r} is no metric of ours.", hint="docs/reference/tables.md lists them.")
        if rule.value == "state" and METRICS[metric].extensive:
            raise UsageError(f"{where}: {metric} adds up, and is no state.")
        if rule.value in ("amount", "rate") and not METRICS[metric].extensive:
            raise UsageError(f"{where}: {metric} does not add up, and is no {rule.value}.")
    for kind in rule.kind.constants:
        if kind not in COMPONENT_KINDS:
            raise UsageError(f"{where}: {kind!r} is no kind.", hint=f"There are: {', '.join(COMPONENT_KINDS)}.")
    if rule.value not in ("", *VALUES):
        raise UsageError(f"{where}: `value` is one of {', '.join(VALUES)}.")
    if rule.job_field not in JOB_FIELDS:
        raise UsageError(f"{where}: `field` is one of {', '.join(JOB_FIELDS)}.")


def _expression(given: Any, where: str) -> Expression:
    if isinstance(given, str) and given:
        return Expression(text=given)
    if not isinstance(given, Mapping) or not isinstance(given.get("label"), str) or not given["label"]:
        raise UsageError(f"{where}: expected a text, or a table with a `label`.")
    unknown = sorted(set(given) - {"label", "match", "map", "other"})
    if unknown:
        raise UsageError(f"{where}: there is no {unknown[0]!r}.", hint="There are: label, match, map, other.")
    translated = given.get("map")
    if translated is not None and not (
        isinstance(translated, Mapping) and all(isinstance(text, str) for text in translated.values())
    ):
        raise UsageError(f"{where}: `map` should be a table of texts.")
    try:
        match = re.compile(given["match"]) if "match" in given else None
    except (re.error, TypeError) as error:
        raise UsageError(f"{where}: `match` is no pattern: {error}.") from None
    return Expression("", given["label"], match, translated, given.get("other"))


def _conditions(given: Any, where: str) -> dict[str, frozenset[str]]:
    if not isinstance(given, Mapping):
        raise UsageError(f"{where}: `where` should be a table of labels.")
    return {
        name: frozenset(map(str, wanted)) if isinstance(wanted, list) else frozenset({str(wanted)})
        for name, wanted in given.items()
    }


def _factor(given: Any, where: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1e30:
        raise UsageError(f"{where}: `factor` should be a number above 0.")
    return float(given)


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
