"""Scans of one tree as studies see them: in order of time, histograms by owner, projects as the facility names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Ints
from ioweather.core.contracts import Inventory, Need, Param, Params
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Cell
from ioweather.core.words import names_of

_LATEST_LARGEST: Final = (
    "SELECT root FROM scans GROUP BY root ORDER BY arg_max(file_count, start_ns) DESC, root LIMIT 1"
)
_UNNAMED: Final = "uid "  # what Facility.project_of calls a user whom no rule names


def largest_root(inventory: Inventory, _: Params) -> Cell:
    """The tree that had most files when it was last looked at."""
    return inventory.scalar(_LATEST_LARGEST)


ROOT = Param("root", "the scanned directory; default: the one with most files", choose=largest_root)
SCANS = Need(
    "scans",
    "scans",
    columns=names_of("""
        scan_id start_ns root complete file_count file_bytes capacity_bytes largest_file_bytes unreadable_count
        total_inodes used_inodes
    """),
    where={"root": "$root"},
)
_BIN_COLUMNS: Final = ("scan_id", "owner", "histogram", "low", "high", "count", "bytes")
BINS = Need(
    "bins",
    "scan_bins",
    columns=_BIN_COLUMNS,
    where={"root": "$root", "owner_kind": "all", "histogram": ("capacity", "mtime", "size")},
)
PROJECT_BINS = Need(
    "project_bins",
    "scan_bins",
    columns=_BIN_COLUMNS,
    where={"root": "$root", "owner_kind": "project", "histogram": ("capacity", "size")},
    optional=True,
)

JOBS = Need("jobs", "jobs", columns=("uid", "account"), where={"step": ""}, optional=True)


@dataclass(frozen=True)
class Bins:
    """One histogram: edges in order, files and bytes."""

    low: Ints
    high: Ints
    count: Ints
    bytes: Ints

    @property
    def files(self) -> int:
        return int(self.count.sum())

    @property
    def total_bytes(self) -> int:
        return int(self.bytes.sum())

    def below(self, limit: int) -> tuple[int, int]:
        """Files and bytes under an edge."""
        under = self.high <= limit
        return int(self.count[under].sum()), int(self.bytes[under].sum())

    def from_on(self, limit: int) -> tuple[int, int]:
        """Files and bytes from an edge on."""
        over = self.low >= limit
        return int(self.count[over].sum()), int(self.bytes[over].sum())

    def without(self, other: Bins) -> Bins:
        """What is left when another histogram of a part of the same files is taken away."""
        count, size = self.count.copy(), self.bytes.copy()
        if not np.isin(other.low, self.low).all():
            raise DataUnavailable("A project's files have sizes that no file of the scan has.")
        place = np.searchsorted(self.low, other.low)
        np.subtract.at(count, place, other.count)
        np.subtract.at(size, place, other.bytes)
        return Bins(self.low, self.high, count, size)


@dataclass(frozen=True)
class ScanView:
    """Scans of one root, oldest first, and their histograms: of everything, and by project."""

    scans: Frame
    bins: Frame
    project_bins: Frame
    facility: Facility
    accounts: Mapping[int, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.scans.rows

    def moments_ns(self) -> Ints:
        return self.scans.ints("start_ns")

    def numbers(self, name: str) -> list[int | None]:
        """A column of `scans`; null is None."""
        return list(self.scans.array(name).tolist())

    def histogram(self, scan: int, name: str) -> Bins:
        """Of the scan at a position."""
        return _summed(self.bins.take(np.flatnonzero(self._rows(self.bins, scan, name))))

    def projects(self, scan: int) -> dict[str, list[int]]:
        """Codes of owners by project. Projects by path and group were found by the scan; users whom no rule named
        then are mapped now, with what the facility file and accounting say by now."""
        found = self._rows(self.project_bins, scan, "size")
        owners = self.project_bins.text("owner")
        projects: dict[str, list[int]] = {}
        for code in np.unique(owners.codes[found]).tolist():
            projects.setdefault(self._project(owners.categories[code]), []).append(code)
        return projects

    def project_histogram(self, scan: int, name: str, project: str) -> Bins:
        rows = self._rows(self.project_bins, scan, name)
        rows &= np.isin(self.project_bins.text("owner").codes, self.projects(scan).get(project, []))
        return _summed(self.project_bins.take(np.flatnonzero(rows)))

    def dominant_project(self) -> str | None:
        """The project with most files in the newest scan; None where nobody is known."""
        rows = self._rows(self.project_bins, -1, "size")
        owners = self.project_bins.text("owner")
        files = np.bincount(
            owners.codes[rows], np.asarray(self.project_bins.array("count"))[rows], len(owners.categories)
        )
        totals = {name: float(files[codes].sum()) for name, codes in self.projects(-1).items()}
        return min(totals, key=lambda name: (-totals[name], name)) if totals else None

    def _project(self, owner: str) -> str:
        number = owner.removeprefix(_UNNAMED)
        unnamed = owner.startswith(_UNNAMED) and number.isdecimal()
        if not unnamed:
            return owner
        uid = int(number)
        return self.facility.project_of(uid=uid, account=self.accounts.get(uid))

    def _rows(self, bins: Frame, scan: int, histogram: str) -> Bools:
        scan_id = self.scans.text("scan_id").tolist()[scan] or ""
        return bins.text("scan_id").equals(scan_id) & bins.text("histogram").equals(histogram)


def _summed(rows: Frame) -> Bins:
    """One histogram of the rows of one or several owners. Times to come are left out: they have no age."""
    dated = rows.take(np.flatnonzero(rows.known("low")))
    low, place = np.unique(dated.ints("low"), return_inverse=True)
    high, count, held = (np.zeros(len(low), np.int64) for _ in range(3))
    high[place] = dated.ints("high")
    np.add.at(count, place, dated.ints("count"))
    np.add.at(held, place, dated.ints("bytes"))
    return Bins(low, high, count, held)


def view(frames: Mapping[str, Frame], facility: Facility) -> ScanView | None:
    """The scans that were fetched; None where there are none."""
    scans, bins = frames.get("scans"), frames.get("bins")
    if scans is None or bins is None or scans.rows == 0:
        return None
    ordered = scans.take(np.argsort(scans.array("start_ns"), kind="stable"))
    nobody = bins.take(slice(0, 0))
    return ScanView(ordered, bins, frames.get("project_bins", nobody), facility, _accounts(frames.get("jobs")))


def _accounts(jobs: Frame | None) -> dict[int, str]:
    """Users whose jobs are all charged to one account: their files are that account's too."""
    if jobs is None or jobs.rows == 0:
        return {}
    account = jobs.text("account")
    known = jobs.known("uid") & jobs.known("account")
    pairs = np.unique(np.stack([jobs.ints("uid")[known], account.codes[known]]), axis=1)
    users, first, charged = np.unique(pairs[0], return_index=True, return_counts=True)
    return {
        int(user): account.categories[int(pairs[1, place])]
        for user, place, number in zip(users, first, charged, strict=True)
        if number == 1
    }
