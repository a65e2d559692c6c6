"""Exposition text: equal to what prometheus_client reads, of any form; and the rows of recordings of it."""

from __future__ import annotations

import math
import os
import re
import tomllib
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from error_kinds import source_error
from ioweather.core.contracts import ReadContext
from ioweather.core.counters.growth import Target
from ioweather.core.errors import CorruptInput, UsageError
from ioweather.core.units import MINUTE_NS, NS
from ioweather.readers.prometheus.exposition import PROMETHEUS, Sample, parse
from ioweather.readers.prometheus.mapping import Mappings, read_mapping, shipped

T0 = 1_710_000_000


def samples(text: str) -> list[Sample]:
    return [item for item in parse(text.splitlines(), "x") if isinstance(item, Sample)]


def expected(text: str, parser=plain) -> list[tuple[str, dict[str, str], float, int | None]]:
    found = [sample for family in parser(text) for sample in family.samples]
    return [
        (s.name, s.labels, s.value, None if s.timestamp is None else round(float(s.timestamp) * 1000) * 10**6)
        for s in found
    ]


def same(text: str, parser=plain) -> None:
    ours = [(s.name, s.labels, s.value, s.time_ns) for s in samples(text)]
    theirs = expected(text, parser)
    assert [(n, lab, t) for n, lab, _, t in ours] == [(n, lab, t) for n, lab, _, t in theirs]
    for (*_, mine, _), (*_, other, _) in zip(ours, theirs, strict=True):
        assert mine == other or (math.isnan(mine) and math.isnan(other))


@pytest.mark.parametrize(
    "text",
    [
        "# TYPE a gauge\na 1\n",
        'a{b="c"} 1.5e3 1710000000123\n',
        'a{b="x y,z}{\\"q\\" \\\\ \\n end", c="" ,d="é",} NaN\na{b="2"} +Inf\na{b="3"} -Inf\n',
        "a{} 1\nb 0\nc_total -0.5\n",
    ],
)
def test_plain_text_as_prometheus_client_reads_it(text):
    same(text)


def test_openmetrics():
    text = '# TYPE a counter\na_total{b="1"} 5 1710000000.5 # {trace="x"} 1 1710000000\na_total{b="2"} 7\n# EOF\n'
    same(text, openmetrics)


@pytest.mark.parametrize("line", ["a", "a{b} 1", 'a{b="c} 1', "1a 2", "a 1 2 3 4", "a one", 'a{b="c"}1x', "a{b=c} 1"])
def test_what_is_no_sample_is_said(line):
    with pytest.raises(CorruptInput, match="x, line 1"):
        list(parse([line], "x"))


def write_scrapes(path, values, *, dated=True, target="fs1-OST0000"):
    """Scrapes a minute apart with one counter."""
    text = ""
    for i, value in enumerate(values):
        text += f"{T0 + 60 * i}\n" if dated else ""
        text += "# TYPE lustre_read_bytes_total counter\n"
        if value is not None:
            text += f'lustre_read_bytes_total{{component="ost",target="{target}"}} {value}\n'
        text += f'lustre_write_bytes_total{{component="ost",target="{target}"}} {10 * i}\n'
        text += f'lustre_capacity_kilobytes{{component="ost",target="{target}"}} 7\n'
    path.write_text(text)
    return path


def rows(path, context=None):
    found = [record for _, frame in PROMETHEUS.read(path, context or ReadContext()) for record in frame.records()]
    return sorted(found, key=lambda row: (row["metric"], row["start_ns"]))


def test_counters_become_differences_and_states_stay(tmp_path):
    found = rows(write_scrapes(tmp_path / "a.prom", [5, 25, 26]))
    reads = [
        (r["start_ns"] // NS - T0, r["interval_ns"] // NS, r["value"]) for r in found if r["metric"] == "read_bytes"
    ]
    assert reads == [(0, 60, 20.0), (60, 60, 1.0)]
    (capacity,) = [r for r in found if r["metric"] == "capacity_bytes"]
    assert (capacity["value"], capacity["interval_ns"]) == (7 * 1024, MINUTE_NS)
    assert {(r["system"], r["component_kind"], r["component"]) for r in found} == {("fs1", "ost", "fs1-OST0000")}


def test_undated_scrapes(tmp_path):
    path = write_scrapes(tmp_path / "a.prom", [1, 2], dated=False)
    with source_error("UndatedInput", match="several scrapes without times"):
        rows(path)
    one = write_scrapes(tmp_path / "b.prom", [1], dated=False)
    os.utime(one, (T0, T0))
    generator = PROMETHEUS.read(one, ReadContext())
    ((_, frame),) = [next(generator)]
    assert frame.records()[0]["start_ns"] == T0 * NS // MINUTE_NS * MINUTE_NS
    with pytest.raises(StopIteration) as end:
        next(generator)
    assert "time: modification time of the file" in end.value.value


def test_own_times_in_any_order_of_series(tmp_path):
    """As promtool writes them: all samples of a series, then those of the next."""
    path = tmp_path / "a.om"
    lines = [
        f'node_disk_{what}_bytes_total{{device="sda",instance="oss1:9100"}} {step * i} {T0 + 60 * i}.5'
        for what, step in (("read", 100), ("written", 7))
        for i in range(4)
    ]
    path.write_text("\n".join([*lines, "# EOF", ""]))
    found = rows(path)
    assert {(r["metric"], r["value"]) for r in found} == {("read_bytes", 100.0), ("write_bytes", 7.0)}
    assert len(found) == 6
    assert {(r["system"], r["component"]) for r in found} == {("oss1:sda", "sda")}
    assert found[0]["start_ns"] == T0 * NS + NS // 2


def test_jobs_of_servers(tmp_path):
    def scrape(i, count, moved):
        labels = 'component="ost",jobid="4711",target="fs1-OST0000"'
        return (
            f"{T0 + 60 * i}\nlustre_job_read_bytes_total{{{labels}}} {moved}\n"
            f"lustre_job_read_samples_total{{{labels}}} {count}\n"
        )

    path = tmp_path / "a.prom"
    path.write_text(scrape(0, 2, 2048) + scrape(1, 5, 8192) + scrape(2, 1, 512))
    found = [r for _, frame in PROMETHEUS.read(path, ReadContext(cluster="c")) for r in frame.records()]
    assert [(r["count"], r["bytes"], r["quality"]) for r in found] == [(3, 6144, 0), (1, 512, 2)]
    assert {(r["job_key"], r["job_id"], r["cluster"], r["operation"]) for r in found} == {("4711", 4711, "c", "read")}


def test_amounts_and_rates_of_a_mapping(tmp_path):
    rule = {"names": ["x"], "system": "s", "kind": "host", "component": "{host}", "metric": "read_bytes"}
    path = tmp_path / "a.prom"
    path.write_text("".join(f'x{{instance="n1:9"}} {5 + i} {T0 + 10 * i}000\n' for i in range(3)))
    for value, amounts in (("amount", [6.0, 7.0]), ("rate", [60.0, 70.0]), ("counter", [1.0, 1.0])):
        found = rows(path, ReadContext(mapping={"metric": [{**rule, "value": value}]}))
        assert [row["value"] for row in found] == amounts
    found = rows(path, ReadContext(mapping={"metric": [{**rule, "metric": "busy_ratio", "value": "counter"}]}))
    assert [row["value"] for row in found] == [0.1, 0.1]


def test_a_folder_of_scrapes_is_read_in_the_order_of_their_times(tmp_path):
    for i, value in enumerate((4, 9)):
        file = write_scrapes(tmp_path / f"{9 - i}.prom", [value], dated=False)
        os.utime(file, (T0 + 60 * i, T0 + 60 * i))
    assert PROMETHEUS.detect(b"", tmp_path) > 0
    assert [r["value"] for r in rows(tmp_path) if r["metric"] == "read_bytes"] == [5.0]


def read(source, path, **context):
    assert source.detect(path.read_bytes()[: 64 << 10], path) > 0.5
    rows = [row for _, frame in source.read(path, ReadContext(**context)) for row in frame.records()]
    return sorted(rows, key=lambda row: (row.get("metric") or "", row["start_ns"]))


def test_telegraf_counts_what_a_job_did_to_the_metadata_server(tmp_path):
    """The output of telegraf with `data_format = "prometheus"`."""
    path = tmp_path / "metrics.prom"
    mds, oss = 'host="mds1",jobid="42990218",name="wrk-MDT0000"', 'host="oss2",jobid="7",name="wrk-OST0041"'
    path.write_text(
        "".join(
            f"lustre2_jobstats_open{{{mds}}} {opens} {time}000\nlustre2_jobstats_unlink{{{mds}}} {unlinks} {time}000\n"
            f"lustre2_jobstats_ost_sync{{{oss}}} {syncs} {time}000\n"
            f"lustre2_jobstats_punch{{{oss}}} {punched} {time}000\n"
            for time, opens, unlinks, syncs, punched in ((1465914450, 800, 3, 1, 0), (1465914460, 900, 4, 6, 2))
        )
    )
    found = {(r["job_id"], r["component"], r["operation"]): r["count"] for r in read(PROMETHEUS, path)}
    assert found == {
        (42990218, "wrk-MDT0000", "open"): 100, (42990218, "wrk-MDT0000", "unlink"): 1,
        (7, "wrk-OST0041", "sync"): 5, (7, "wrk-OST0041", "punch"): 2,
    }  # fmt: skip


GOOD = {"names": ["x_total"], "metric": "read_bytes", "system": "{fs}", "kind": "ost", "component": "{target}"}


def test_every_shipped_mapping_has_a_title_and_rules():
    assert {"lustrefs_exporter", "hpe_lustre_exporter", "gsi_lustre_exporter", "node_exporter", "gpfs_bridge"} <= set(
        shipped()
    )
    assert all(title and rules for title, rules in shipped().values())


@pytest.mark.parametrize(
    ("name", "labels", "target", "metric"),
    [
        ("lustre_read_bytes_total", {"component": "ost", "target": "a-b-OST001f"},
         Target("a-b", "ost", "a-b-OST001f"), "read_bytes"),
        ("lustre_stats_total", {"component": "mdt", "target": "f-MDT0000", "operation": "migrate"},
         Target("f", "mdt", "f-MDT0000"), "other_ops"),
        ("lustre_capacity_kibibytes", {"component": "mdt", "target": "f-MDT0000"},
         Target("f", "mdt", "f-MDT0000"), "capacity_bytes"),
        ("lustre_read_bytes_total", {"component": "client", "target": "fs-ffff8ab01234", "instance": "n7:9169"},
         Target("fs", "host", "n7"), "read_bytes"),
        ("node_disk_io_time_seconds_total", {"device": "sdb", "instance": "oss2:9100"},
         Target("oss2:sdb", "device", "sdb"), "busy_ratio"),
        ("gpfs_fs_bytes_read", {"gpfs_fs_name": "gpfs0", "node": "n1"}, Target("gpfs0", "host", "n1"), "read_bytes"),
        ("node_mountstats_nfs_operations_requests_total", {"operation": "LOOKUP", "mountpoint": "/home", "host": "n1"},
         Target("mount:/home", "host", "n1"), "other_ops"),
    ],
)  # fmt: skip
def test_what_a_series_is(name, labels, target, metric):
    found = Mappings().find(name, name, labels)
    assert found is not None
    assert (found.target, found.metric) == (target, metric)


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("lustre_stats_total", {"component": "mdt", "target": "f-MDT0000", "operation": "crossdir_rename"}),
        ("lustre_read_bytes_total", {"component": "mgs", "target": "MGS"}),
        ("node_disk_read_bytes_total", {"device": "loop0", "instance": "n1:9100"}),
        ("something_else", {}),
    ],
)
def test_what_is_nobodys(name, labels):
    assert Mappings().find(name, name, labels) is None


def test_a_mapping_of_ones_own_comes_first():
    own = tomllib.loads(
        '[[metric]]\nnames = ["lustre_read_bytes_total"]\nmetric = "write_bytes"\nkind = "ost"\n'
        'system = "mine"\ncomponent = "{target}"\nfactor = 2\n'
    )
    found = Mappings(own).find(
        "lustre_read_bytes_total", "lustre_read_bytes_total", {"component": "ost", "target": "f-OST0000"}
    )
    assert found is not None
    assert (found.metric, found.target.system, found.factor) == ("write_bytes", "mine", 2.0)
    assert (
        Mappings(own).find(
            "node_disk_read_bytes_total", "node_disk_read_bytes_total", {"device": "sda", "instance": "n1"}
        )
        is not None
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metric": "reads"}, "unknown metric"), ({"kind": "disk"}, "unknown kind"), ({"names": "x"}, "names"),
        ({"colour": 1}, "colour"), ({"value": "x"}, "value"),
        ({"metric": "busy_ratio", "value": "rate"}, "is a state, not a rate"),
        ({"factor": 0}, "factor"), ({"system": ""}, "system"), ({"where": 3}, "where"),
        ({"value": "state"}, "is an amount, not a state"),
        ({"component": {"match": "x"}}, "label"), ({"component": {"label": "a", "match": "("}}, "unterminated"),
        ({"job": "{j}"}, "operation"), ({"job": "{j}", "operation": "x", "field": "y"}, "field"),
    ],
)  # fmt: skip
def test_mistakes_are_named(change, said):
    with pytest.raises(UsageError, match=said):
        read_mapping({"metric": [{**GOOD, **change}]}, "m.toml")


def test_the_recipes_of_the_documentation_are_mappings():
    text = (Path(__file__).parents[3] / "docs" / "how-to" / "prometheus-in.md").read_text()
    recipes = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert len(recipes) == 6
    for recipe in recipes:
        assert read_mapping(tomllib.loads(recipe), "recipe")
