"""IOR's JSON output (`-O summaryFormat=JSON`): the same runs, tests and rows as its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, TruncatedInput
from ioweather.sources.benchmarks.dates import LocalTimes
from ioweather.sources.benchmarks.ior_text import IorRow, IorRun, IorTest
from ioweather.sources.benchmarks.phases import TextFile, number
from ioweather.sources.plain_values import parse_json

_SUMMARY: Final = {
    "max_mib": "bwMaxMIB", "min_mib": "bwMinMIB", "mean_mib": "bwMeanMIB", "sd_mib": "bwStdMIB",
    "max_ops": "OPsMax", "min_ops": "OPsMin", "mean_ops": "OPsMean", "sd_ops": "OPsSD", "mean_seconds": "MeanTime",
}  # fmt: skip


def looks_like_json(head: str) -> bool:
    return head.lstrip().startswith("{") and '"Command line"' in head and '"Began"' in head


def runs_of_json(text: TextFile, context: ReadContext) -> list[IorRun]:
    try:
        document = parse_json("\n".join(text.lines))
    except ValueError as error:
        raise TruncatedInput(
            f"{text.path} is not a whole JSON document ({error}).",
            hint="IOR writes it as it goes; ingest it when the run has finished.",
        ) from None
    if not isinstance(document, Mapping) or not isinstance(document.get("tests"), list):
        raise CorruptInput(f"{text.path} has no list 'tests', so it is no output of IOR.")
    times = LocalTimes(text.path, context.zone)
    run = IorRun(
        version=str(document.get("Version", "")),
        began_ns=times.ns(str(document.get("Began", ""))),
        command=str(document.get("Command line", "")) or None,
        machine=str(document.get("Machine", "")) or None,
        tests=[_test(test, times) for test in document["tests"] if isinstance(test, Mapping)],
        finished="Finished" in document,
    )
    run.finished_ns = times.ns(str(document.get("Finished", "")))
    for summary in _objects(document.get("summary")):
        for test in run.tests:
            if test.id == summary.get("TestID", 0):
                values = {name: number(summary.get(key)) for name, key in _SUMMARY.items()}
                test.summaries[str(summary.get("operation"))] = values
    return [run]


def _test(data: Mapping[str, Any], times: LocalTimes) -> IorTest:
    given = data.get("Options")
    options = {str(key).lower(): str(value) for key, value in given.items()} if isinstance(given, Mapping) else {}
    options.setdefault("path", str(data.get("Path", "")))
    test = IorTest(int(number(data.get("TestID")) or 0), times.ns(str(data.get("StartTime", ""))), options)
    for result in _objects(data.get("Results")):
        access = str(result.get("access"))
        iteration = number(result.get("iter"))
        test.rows.append(
            IorRow(
                access,
                # Not every version numbers its iterations; they come in order.
                len(test.iterations(access)) if iteration is None else int(iteration),
                number(result.get("bwMiB")),
                number(result.get("iops")),
                number(result.get("totalTime")),
            )
        )
    return test


def _objects(listed: Any) -> Iterator[Mapping[str, Any]]:
    """Those in the list; some versions put the results of each iteration into a list of their own."""
    for item in listed if isinstance(listed, list) else []:
        for part in item if isinstance(item, list) else [item]:
            if isinstance(part, Mapping):
                yield part
