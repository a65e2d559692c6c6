"""CSV files whose columns are samples: collectd's (source `collectd`) and those of LDMS (source `ldms`).

collectd writes a file a day for each type, and its place alone says what it is of: HOST/PLUGIN-INSTANCE/TYPE-DATE.
A column becomes the sample `plugin_type_column`. Counters are whole numbers; with StoreRates they are rates, with
fractions.

LDMS (store_csv) writes a column for each metric: `#Time,Time_usec,ProducerName,component_id,read_bytes#stats.scratch`.
A column becomes the sample `ldms_metric`, what stands behind # its label `set`, and the producer its host.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.units import NS
from ioweather.sources.labelled.taking import Pieces, Taking
from ioweather.sources.textfiles import line_blocks, plain_head

_MOMENT: Final = re.compile(r"([0-9]{9,10})(?:\.([0-9]{1,9})[0-9]*)?")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?")
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
                if _NUMBER.fullmatch(value):
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
                if place in (0, producer) or column.lower() in _NOT_MEASURED or not _NUMBER.fullmatch(value):
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


COLLECTD = CollectdSource()
LDMS = LdmsSource()
