"""What a scan found, on one screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ioweather.core.results import Answer, Coverage, Fact, FactGroup
from ioweather.core.units import GIB, KIB, MIB, format_bytes
from ioweather.ingestion.scan_tree import ScanReport
from ioweather.readers.scan.tally import FUTURE, Cells, Owner, count_of, project_name, stored_text, user_name, weight_of

_SIZES: Final = (4 * KIB, 64 * KIB, MIB, 64 * MIB, GIB)
_AGES: Final = (7, 8, 9)  # bins that begin at 64, 128 and 256 days
_SHOWN: Final = 5


def summary(report: ScanReport) -> Answer:
    whole = report.tally.histograms()
    files, held = report.tally.counts["files"], _bytes(whole.get("size", {}))
    return Answer(
        question=f"What is in {_printable(report.facts.root)}?",
        headline=_headline(report, whole),
        facts=(
            FactGroup("contents", "There", tuple(_there(report, whole))),
            FactGroup("sizes", "Files by size", tuple(_by_size(whole.get("size", {}), files, held))),
            FactGroup("ages", "Bytes not modified for", tuple(_by_age(whole.get("mtime", {}), held))),
            FactGroup("owners", "Who has most files", tuple(_by_project(report, files))),
            FactGroup("largest", "Largest files", tuple(_largest(report))),
        ),
        caveats=tuple(_caveats(report)),
        coverage=(_coverage(report),),
        name="scan",
    )


def _headline(report: ScanReport, whole: dict[str, Cells]) -> str:
    files, held = report.tally.counts["files"], _bytes(whole.get("size", {}))
    rate = report.tally.counts["entries"] / report.seconds if report.seconds > 0 else 0.0
    return (
        f"{files:,} files with {format_bytes(held)} in {_printable(report.facts.root)}, "
        f"read in {report.seconds:,.1f} s ({rate:,.0f} entries/s)."
    )


def _there(report: ScanReport, whole: dict[str, Cells]) -> Iterator[Fact]:
    counts = report.tally.counts
    held, allocated = _bytes(whole.get("size", {})), _bytes(whole.get("capacity", {}))
    yield Fact("files", "files", counts["files"], "count")
    yield Fact("bytes", "bytes", held, "bytes")
    over = f"{(allocated - held) / held:+.1%} against the size" if held else ""
    yield Fact("allocated_bytes", "allocated", allocated, "bytes", note=over)
    yield Fact("directories", "directories", counts["directories"], "count")
    yield Fact("symbolic_links", "symbolic links", counts["symlinks"], "count")
    linked = sum(count_of(cell) for index, cell in whole["link_count"].items() if index > 1)
    if linked:
        note = f"{counts['linked_names']:,} names, counted once"
        yield Fact("linked_files", "files with several names", linked, "count", note=note)
    if counts["others"]:
        yield Fact("others", "devices, pipes, sockets", counts["others"], "count")


def _by_size(cells: Cells, files: int, held: int) -> Iterator[Fact]:
    for limit in _SIZES:
        below = [cell for index, cell in cells.items() if 1 << index <= limit]
        share = sum(map(count_of, below)) / files if files else None
        of_bytes = sum(map(weight_of, below)) / held if held else 0.0
        label, note = f"below {format_bytes(limit)}", f"{of_bytes:.1%} of the bytes"
        yield Fact(f"below_{limit}_bytes", label, share, "ratio", share, note)


def _by_age(cells: Cells, held: int) -> Iterator[Fact]:
    for first in _AGES:
        older = sum(weight_of(cell) for index, cell in cells.items() if first <= index < FUTURE)
        share = older / held if held else None
        days = 1 << (first - 1)
        yield Fact(f"older_than_{days}_days", f"{days} days", share, "ratio", share)


def _by_project(report: ScanReport, files: int) -> Iterator[Fact]:
    groups: dict[str, list[Owner]] = {}
    for owner in report.tally.owners:
        groups.setdefault(project_name(owner) or "unknown", []).append(owner)
    sizes = {name: report.tally.histograms(owners).get("size", {}) for name, owners in groups.items()}
    counted = sorted(((sum(map(count_of, cells.values())), name) for name, cells in sizes.items()), reverse=True)
    for place, (count, name) in enumerate(counted[:_SHOWN], 1):
        share = count / files if files else None
        yield Fact(f"owner_{place}", _printable(name), count, "count", share, note=format_bytes(_bytes(sizes[name])))


def _largest(report: ScanReport) -> Iterator[Fact]:
    largest = sorted(report.tally.largest["files"], reverse=True)[:_SHOWN]
    for place, (value, path, uid) in enumerate(largest, 1):
        yield Fact(f"file_{place}", user_name(uid) or f"uid {uid}", value, "bytes", note=_printable(path))


def _caveats(report: ScanReport) -> Iterator[str]:
    counts = report.tally.counts
    if counts["unreadable"]:
        names = ", ".join(f"{n:,} {code}" for code, n in sorted(report.tally.errors.items()))
        example = _printable(report.tally.troubles[0][0]) if report.tally.troubles else ""
        yield f"{counts['unreadable']:,} directories could not be read ({names}), such as {example}."
    if counts["snapshots"]:
        yield f"{counts['snapshots']:,} snapshot directories were not entered."
    if counts["other_filesystems"]:
        yield f"{counts['other_filesystems']:,} mount points of other file systems were not entered."
    if counts["not_examined"]:
        names = ", ".join(f"{n:,} {code}" for code, n in sorted(report.tally.errors.items()))
        yield f"{counts['not_examined']:,} entries could not be examined ({names})."
    if report.complaint:
        yield report.complaint
    if report.resumed:
        yield "This scan went on after an interruption; ages are counted from its first start."


def _coverage(report: ScanReport) -> Coverage:
    counts = report.tally.counts
    lost = {"vanished while scanning": counts["vanished"], "could not be examined": counts["not_examined"]}
    return Coverage(counts["entries"], counts["entries"] - sum(lost.values()), "entries", lost)


def _bytes(cells: Cells) -> int:
    return sum(map(weight_of, cells.values()))


def _printable(text: str) -> str:
    """Names may hold anything, escape sequences of terminals too."""
    shown: Iterable[str] = (c if c.isprintable() else f"\\x{ord(c):02x}" for c in stored_text(text)[0])
    return "".join(shown)
