"""The output of `mmpmon -p`: what a node has counted of each file system since it was mounted there.

Standard library only: the live collector uses it too. Lines are `_request_ _keyword_ value ...`. `fs_io_s` and `io_s`
are read off a real node, `rhist s` is after IBM's documentation alone (its responses have lines of their own for each
range: `_R_ least most _NR_ requests`, `_L_ least most _NL_ requests`, `_end_`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ioweather.core.counters.growth import Origin, Sample, Target
from ioweather.core.units import NS
from ioweather.core.words import pairs_of

_REQUEST = re.compile(r"_(fs_io_s|io_s|rhist|ver|reset|nlist|once|fs_reset)_ ")
_PAIR = re.compile(r"_([A-Za-z]{1,8})_ (\S+)")
_RANGE = re.compile(r"\s*_R_ ([0-9]{1,18}) ([0-9]{1,18}) _NR_ ([0-9]{1,18})\b")
_WHOLE = re.compile(r"[0-9]{1,19}")
_METRICS = pairs_of("""
    br=read_bytes bw=write_bytes oc=open_ops cc=close_ops rdc=read_ops wc=write_ops dir=other_ops iu=setattr_ops
""")
_KINDS = {"r": "read", "w": "write"}
_SMALL_BYTES = 512 << 10
# A node's sums over its file systems have no name of their own.
ALL = "gpfs"


class Response(NamedTuple):
    """One answer of a node; `rc` is its status, 0 where all is well."""

    request: str
    fields: dict[str, str]


def is_mmpmon(text: str) -> bool:
    return any(_REQUEST.match(line) and " _n_ " in line for line in text.splitlines()[:50])


def samples(lines: Iterable[str]) -> Iterator[tuple[Origin, Sample] | str]:
    """What was counted, answer by answer; or why an answer tells nothing. Answers of one request of many nodes, and of
    many requests one after another, all stand below each other."""
    sizes: tuple[Response, dict[str, int]] | None = None
    for line in lines:
        if _REQUEST.match(line):
            if sizes is not None:
                yield from _histogram(*sizes)
                sizes = None
            response = Response(line[1:].partition("_ ")[0], dict(_PAIR.findall(line)))
            if response.request == "rhist":
                sizes = (response, {}) if response.fields.get("req") == "s" and "k" in response.fields else None
            elif response.request in ("fs_io_s", "io_s"):
                yield _counted(response)
        elif sizes is not None and (match := _RANGE.match(line)):
            most = int(match[2]) or 1 << 62  # 0: and higher
            for name in ("bulk", "small_bulk") if most <= _SMALL_BYTES else ("bulk",):
                sizes[1][name] = sizes[1].get(name, 0) + int(match[3])
    if sizes is not None:
        yield from _histogram(*sizes)


def _counted(response: Response) -> tuple[Origin, Sample] | str:
    fields = response.fields
    moment = _moment_ns(fields)
    counters = {metric: int(fields[key]) for key, metric in _METRICS.items() if _WHOLE.fullmatch(fields.get(key, ""))}
    if fields.get("rc", "0") != "0":
        return f"{response.request} with status {fields['rc'][:10]}"
    if moment is None or len(counters) < len(_METRICS):
        return f"{response.request} without all of its counters"
    target = Target(fields.get("fs", ALL), "host", fields.get("nn") or fields.get("n", "?"))
    return Origin(target, response.request), Sample(moment, None, counters)


def _moment_ns(fields: dict[str, str]) -> int | None:
    seconds, micros = fields.get("t", ""), fields.get("tu", "0")
    if not re.fullmatch(r"[0-9]{1,10}", seconds) or not re.fullmatch(r"[0-9]{1,6}", micros):
        return None
    return int(seconds) * NS + int(micros) * 1000


def _histogram(response: Response, sizes: dict[str, int]) -> Iterator[tuple[Origin, Sample] | str]:
    kind, moment = _KINDS.get(response.fields["k"]), _moment_ns(response.fields)
    if kind is None or moment is None:
        yield "rhist without its kind or time"
        return
    counters = {f"{name}_{kind}_ops": sizes.get(name, 0) for name in ("bulk", "small_bulk")}
    target = Target(ALL, "host", response.fields.get("nn") or response.fields.get("n", "?"))
    yield Origin(target, f"rhist {kind}"), Sample(moment, None, counters)
