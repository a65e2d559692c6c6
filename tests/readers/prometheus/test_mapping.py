"""Mapping files: those shipped are whole, and mistakes in a person's own are named."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ioweather.core.counters.growth import Target
from ioweather.core.errors import UsageError
from ioweather.readers.prometheus.mapping import mappings_of, read_mapping, shipped

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
    found = mappings_of(None).of(name, labels)
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
    assert mappings_of(None).of(name, labels) is None


def test_a_mapping_of_ones_own_comes_first():
    own = tomllib.loads(
        '[[metric]]\nnames = ["lustre_read_bytes_total"]\nmetric = "write_bytes"\nkind = "ost"\n'
        'system = "mine"\ncomponent = "{target}"\nfactor = 2\n'
    )
    found = mappings_of(own).of("lustre_read_bytes_total", {"component": "ost", "target": "f-OST0000"})
    assert found is not None
    assert (found.metric, found.target.system, found.factor) == ("write_bytes", "mine", 2.0)
    assert mappings_of(own).of("node_disk_read_bytes_total", {"device": "sda", "instance": "n1"}) is not None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metric": "reads"}, "no metric"), ({"kind": "disk"}, "no kind"), ({"names": "x"}, "names"),
        ({"colour": 1}, "colour"), ({"value": "x"}, "value"),
        ({"metric": "busy_ratio", "value": "rate"}, "does not add up"),
        ({"factor": 0}, "factor"), ({"system": ""}, "system"), ({"where": 3}, "where"),
        ({"value": "state"}, "no state"),
        ({"component": {"match": "x"}}, "label"), ({"component": {"label": "a", "match": "("}}, "pattern"),
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
