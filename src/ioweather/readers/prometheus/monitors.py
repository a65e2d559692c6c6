"""Files of other monitoring systems: CSV of collectd and of LDMS, and the line protocol of telegraf.

collectd (source `collectd`) writes a file a day for each type, and its place alone says what it is of:
HOST/PLUGIN-INSTANCE/TYPE-DATE. A column becomes the sample `plugin_type_column`. Counters are whole numbers; with
StoreRates they are rates, with fractions.

LDMS (store_csv; source `ldms`) writes a column for each metric: `#Time,Time_usec,ProducerName,component_id,
read_bytes#stats.scratch`. A column becomes the sample `ldms_metric`, the text behind # its label `set`, and the
producer its host.

telegraf (source `telegraf`) writes InfluxDB's line protocol:

    diskio,host=oss1,name=sda read_bytes=4096i,writes=3i 1794726355242525983

A field becomes the sample `measurement_field` with the tags as labels. Times are in nanoseconds, or in the unit that
the writer was set to: their length tells.

A SELECT could not replace these readers: which samples are taken, and as which metric, follows from the mapping files,
a site's own included, and growth over a gap or a restart from the samples before.
"""

from __future__ import annotations

import csv
import heapq
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError, UndatedInput
from ioweather.core.units import NS
from ioweather.readers.prometheus.exposition_files import Pieces, Taking
from ioweather.readers.text_files import line_blocks, plain_head, whole_lines

_MOMENT: Final = re.compile(r"([0-9]{9,10})(?:\.([0-9]{1,9})[0-9]*)?")
_CSV_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?")
_COLLECTD: Final = re.compile(r"epoch(?:,[\w-]{1,60}){1,20}")
_DAY: Final = re.compile(r"(.+)-[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LDMS: Final = re.compile(r"#[Tt]ime(?:stamp)?,(?:[^,\n]{1,300},){0,20}[Pp]roducer(?:Name)?(?:,[^,\n]{1,300}){1,5000}")
_NOT_MEASURED: Final = frozenset({"time_usec", "dt", "component_id", "job_id", "app_id", "uid", "gid", "jobid"})


class CollectdSource:
    name = "collectd"
    title = "CSV files of collectd (disk, df; others by a mapping)"
    tables = ("series", "job_operations")

    def detect(self, head: bytes, path: Path) -> float:
        return 0.85 if _COLLECTD.fullmatch(plain_head(head).partition("\n")[0].strip()) else 0.0

    def read(self, path: Path, context: ReadContext) -> Pieces:
        labels = _place(path)
        if context.host is not None:
            labels["host"] = context.host
        taking = Taking(path, context, "Let collectd write for longer.")
        rows = 0
        columns: list[str] = []
        for where, values in _rows(path):
            if not columns:
                columns = values[1:]
                continue
            rows += 1
            time_ns = _moment_ns(values, len(columns) + 1, where)
            for column, value in zip(columns, values[1:], strict=True):
                if _CSV_NUMBER.fullmatch(value):
                    name = f"{labels['plugin']}_{labels['type']}_{column}"
                    taking.add(name, name, labels, time_ns, float(value), is_rate="." in value)
            yield from taking.full()
        return (yield from taking.finish(f"{rows} line(s) of collectd"))


def _place(path: Path) -> dict[str, str]:
    whole = path.absolute()
    dated = _DAY.fullmatch(whole.name.removesuffix(".gz"))
    if dated is None or len(whole.parts) < 4:
        raise SourceError(
            f"{path} is a CSV of collectd, and its place says what it is of: HOST/PLUGIN-INSTANCE/TYPE-YYYY-MM-DD.",
            hint="Ingest the folder of collectd's csv plugin (DataDir), or its files as they lie there.",
        )
    kind, _, kind_instance = dated[1].partition("-")
    plugin, _, plugin_instance = whole.parts[-2].partition("-")
    names = {"host": whole.parts[-3], "plugin": plugin, "plugin_instance": plugin_instance}
    return names | {"type": kind, "type_instance": kind_instance}


class LdmsSource:
    name = "ldms"
    title = "CSV files of LDMS (store_csv: Lustre clients, disks; others by a mapping)"
    tables = ("series", "job_operations")

    def detect(self, head: bytes, path: Path) -> float:
        return 0.9 if _LDMS.fullmatch(plain_head(head).partition("\n")[0].strip()) else 0.0

    def read(self, path: Path, context: ReadContext) -> Pieces:
        taking = Taking(path, context, "Let LDMS store for longer.")
        rows, columns, producer = 0, [""], 0
        for where, values in _rows(path):
            if values[0].startswith("#"):
                columns = values
                producers = [i for i, name in enumerate(columns) if name.lower().startswith("producer")]
                if not producers:
                    raise CorruptInput(f"{where}: no column says which producer the values are of.")
                producer = producers[0]
                continue
            rows += 1
            time_ns = _moment_ns(values, len(columns), where)
            host = values[producer]
            for place, (column, value) in enumerate(zip(columns, values, strict=True)):
                if place in (0, producer) or column.lower() in _NOT_MEASURED or not _CSV_NUMBER.fullmatch(value):
                    continue
                metric, _, of = column.partition("#")
                labels = {"host": host, "set": of}
                taking.add(f"{host},{column}", f"ldms_{metric}", labels, time_ns, float(value))
            yield from taking.full()
        return (yield from taking.finish(f"{rows} line(s) of LDMS"))


def _rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    for block in line_blocks(path):
        if block.torn:
            continue
        reader = csv.reader(block.lines, strict=False)
        try:
            for number, values in enumerate(reader, block.first):
                if values:
                    yield f"{path}, line {number}", [value.strip() for value in values]
        except csv.Error as error:
            raise CorruptInput(f"{path}, line {block.first + reader.line_num}: {error}.") from None


def _moment_ns(values: list[str], columns: int, where: str) -> int:
    match = _MOMENT.fullmatch(values[0])
    if match is None or len(values) != columns:
        raise CorruptInput(f"{where}: expected a time and {columns - 1} values, found {','.join(values)[:60]!r}.")
    return int(match[1]) * NS + int((match[2] or "").ljust(9, "0"))


# Blanks, commas and equal signs inside a name stand behind a backslash; texts of fields stand in quotes.
_NAME: Final = r"(?:[^\\, =\n]|\\.)+"
_VALUE: Final = r'(?:"(?:[^"\\\n]|\\.)*"|[^\\", \n]+)'
_LINE: Final = re.compile(
    rf"(?P<measurement>(?:[^\\, \n]|\\.)+)(?P<tags>(?:,{_NAME}={_NAME})*) "
    rf"(?P<fields>{_NAME}={_VALUE}(?:,{_NAME}={_VALUE})*)(?: (?P<time>[0-9]{{1,19}}))?"
)
_TAG: Final = re.compile(rf",({_NAME})=({_NAME})")
_FIELD: Final = re.compile(rf"({_NAME})=({_VALUE})(?:,|$)")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?([iu]?)")
_LONGEST: Final = 1 << 20  # the pattern remembers every character; InfluxDB itself takes less
_MOST_WAITING: Final = 100_000  # points, of some hundred bytes
_ESCAPED: Final = re.compile(r"\\(.)")
_BY_DIGITS: Final = {10: 10**9, 13: 10**6, 16: 10**3, 19: 1}
_HINT: Final = 'telegraf writes them with [[outputs.file]], data_format = "influx".'


class TelegrafSource:
    name = "telegraf"
    title = "line protocol of InfluxDB and telegraf (diskio, disk, lustre2; others by a mapping)"
    tables = ("series", "job_operations")

    def detect(self, head: bytes, path: Path) -> float:
        lines = [line for line in plain_head(head).split("\n")[:50] if line.strip() and not line.startswith("#")]
        lines = lines[:-1] or lines
        good = [match for line in lines if (match := _LINE.fullmatch(line.strip())) is not None]
        return 0.8 if good and len(good) == len(lines) and any(match["time"] for match in good) else 0.0

    def read(self, path: Path, context: ReadContext) -> Pieces:
        taking, points = Taking(path, context, _HINT), 0
        for time_ns, _, match in _in_order(_points(path)):
            points += 1
            labels = dict(_tags(match["tags"]))
            for field, value in _fields(match["fields"]):
                if _NUMBER.fullmatch(value):
                    name = f"{_plain(match['measurement'])}_{field}"
                    taking.add(f"{name}{match['tags']}", name, labels, time_ns, float(value.rstrip("iu")))
            yield from taking.full()
        return (yield from taking.finish(f"{points} point(s)"))


_Point: TypeAlias = tuple[int, int, re.Match[str]]  # time, number of the line


def _points(path: Path) -> Iterator[_Point]:
    for number, untrimmed in whole_lines(path):
        line, where = untrimmed.strip(), f"{path}, line {number}"
        if len(line) > _LONGEST:
            raise CorruptInput(f"{where} is longer than {_LONGEST:,} characters.")
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise CorruptInput(f"{where}: expected the line protocol, found {line[:80]!r}.")
        time = match["time"]
        if time is None:
            raise UndatedInput(f"{where}: the line has no time.", hint=_HINT)
        if len(time) not in _BY_DIGITS:
            raise CorruptInput(
                f"{where}: {time} is no time in seconds, or thousandths, millionths or billionths of them."
            )
        yield int(time) * _BY_DIGITS[len(time)], number, match


def _in_order(points: Iterator[_Point]) -> Iterator[_Point]:
    """By time, as far as a bounded number of points in memory allows: several writers may share a file."""
    waiting = list(islice(points, _MOST_WAITING))
    heapq.heapify(waiting)
    for point in points:
        yield heapq.heappushpop(waiting, point)
    yield from sorted(waiting)


def _tags(text: str) -> Iterator[tuple[str, str]]:
    """Pairs in a row: the whole line fitted already, so each follows the one before."""
    at = 0
    while (match := _TAG.match(text, at)) is not None:
        yield _plain(match[1]), _plain(match[2])
        at = match.end()


def _fields(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while (match := _FIELD.match(text, at)) is not None:
        yield _plain(match[1]), match[2]
        at = match.end()


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


COLLECTD = CollectdSource()
LDMS = LdmsSource()
TELEGRAF = TelegrafSource()
