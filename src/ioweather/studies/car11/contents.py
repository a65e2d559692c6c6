"""Contents of a file system (car11 IV): sizes of files with and without the dominant project, growth from scan to scan,
and whether jobs write new files or overwrite old ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import stdtrit

from ioweather.core.contracts import Param, Params, Study
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Floats, Frame, Ints
from ioweather.core.results import (
    Cell,
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    Finding,
    Piece,
    Reference,
    ResultTable,
    exhibit,
)
from ioweather.core.units import DAY_NS, MIB, format_bytes, format_ratio, names_of, utc_day
from ioweather.facts.job_metrics import rows_of
from ioweather.facts.runs import number_programs
from ioweather.stats.estimates import LEVEL, grouped_share, plain
from ioweather.stats.summary_tables import table
from ioweather.topics.source import DataSource

_UNNAMED: Final = "uid "  # what Facility.project_of calls a user whom no rule names
# car11 writes 2 MB and 128 MB; fsstats, which it used, has powers of two.
_LIMITS: Final = {"1 MiB": MIB, "2 MB": 2 * MIB, "128 MB": 128 * MIB}
_TWO_SCANS: Final = "two scans give a rate but no interval"
_DRIFT: Final = "random walk with drift over scans"
_FAR_DAYS: Final = 365_000.0  # no forecast beyond a thousand years
# car11: "over 80%" not modified in over 64 days, "over 70%" in over 128: data is rarely overwritten.
AGES_DAYS: Final = (64, 128)


@dataclass(frozen=True)
class Bins:
    """One histogram: edges in order, files and bytes."""

    low: Ints
    high: Ints
    count: Ints
    bytes: Ints

    @classmethod
    def of(cls, rows: Frame) -> Bins:
        """Sum rows of one or several owners. Files with future times have no age and are left out."""
        dated = rows.take(np.flatnonzero(rows.known("low")))
        low, place = np.unique(dated.ints("low"), return_inverse=True)
        high, count, held = (np.zeros(len(low), np.int64) for _ in range(3))
        high[place] = dated.ints("high")
        np.add.at(count, place, dated.ints("count"))
        np.add.at(held, place, dated.ints("bytes"))
        return cls(low, high, count, held)

    @property
    def files(self) -> int:
        return int(self.count.sum())

    @property
    def total_bytes(self) -> int:
        return int(self.bytes.sum())

    def below(self, limit: int) -> tuple[int, int]:
        """Return files and bytes under an edge in bytes."""
        under = self.high <= limit
        return int(self.count[under].sum()), int(self.bytes[under].sum())

    def without(self, other: Bins) -> Bins:
        """Return this histogram minus that of a subset of the same files."""
        if not np.isin(other.low, self.low).all():
            raise DataUnavailable("A project has files of a size that does not occur in the scan.")
        count, size, place = self.count.copy(), self.bytes.copy(), np.searchsorted(self.low, other.low)
        np.subtract.at(count, place, other.count)
        np.subtract.at(size, place, other.bytes)
        return Bins(self.low, self.high, count, size)


class Scans:
    """Scans of one root, oldest first, and their histograms: of everything, and by project as the facility names them.

    `accounts` are those of users whose jobs are all charged to one account.
    """

    def __init__(
        self,
        scans: Frame,
        bins: Frame,
        facility: Facility,
        project_bins: Frame | None = None,
        jobs: Frame | None = None,
    ) -> None:
        self._bins = bins
        self.frame = scans.take(np.argsort(scans.array("start_ns"), kind="stable"))
        self._project_bins = bins.take(slice(0, 0)) if project_bins is None else project_bins
        self._facility, self.moments_ns = facility, self.frame.ints("start_ns")
        self.accounts: dict[int, str] = {}
        if jobs is not None and jobs.rows:
            account, known = jobs.text("account"), jobs.known("uid") & jobs.known("account")
            pairs = np.unique(np.stack([jobs.ints("uid")[known], account.codes[known]]), axis=1)
            users, first, charged = np.unique(pairs[0], return_index=True, return_counts=True)
            codes = zip(users[charged == 1].tolist(), pairs[1, first[charged == 1]].tolist(), strict=True)
            self.accounts = {user: account.categories[code] for user, code in codes}

    def numbers(self, name: str) -> list[int | None]:
        """A column of `scans`; null is None."""
        return list(self.frame.array(name).tolist())

    def _rows(self, bins: Frame, scan: int, histogram: str) -> Frame:
        """Return the rows of one histogram of the scan at a position."""
        scan_id = self.frame.text("scan_id").tolist()[scan] or ""
        rows = bins.text("scan_id").equals(scan_id) & bins.text("histogram").equals(histogram)
        return bins.take(np.flatnonzero(rows))

    def histogram(self, scan: int, name: str) -> Bins:
        """Return a histogram of everything, of the scan at a position."""
        return Bins.of(self._rows(self._bins, scan, name))

    def projects(self, scan: int, name: str) -> dict[str, Bins]:
        """The histogram of each project. Projects by path and group were found by the scan; users whom no rule named
        then are mapped now, with what the facility file and accounting say by now."""
        rows = self._rows(self._project_bins, scan, name)
        owners = rows.text("owner")
        codes: dict[str, list[int]] = {}
        for code in np.unique(owners.codes).tolist():
            project = owners.categories[code]
            number = project.removeprefix(_UNNAMED)
            if project.startswith(_UNNAMED) and number.isdecimal():
                project = self._facility.project_of(uid=int(number), account=self.accounts.get(int(number)))
            codes.setdefault(project, []).append(code)
        return {name: Bins.of(rows.take(np.flatnonzero(np.isin(owners.codes, own)))) for name, own in codes.items()}

    def of_project(self, scan: int, name: str, project: str) -> Bins:
        """The histogram of one project; empty without any file of it."""
        return self.projects(scan, name).get(project, Bins.of(self._bins.take(slice(0, 0))))


def _fetch_scans(
    source: DataSource, params: Params, project_bins: Frame | None = None, jobs: Frame | None = None
) -> Scans | None:
    """Return the scans of one tree in order of time; None without any."""
    scans = source.frame("scans", _SCANS, {"root": params["root"]}, optional=True)
    if not scans.rows:
        return None
    bins = _fetch_bins(source, params, "all", "capacity", "mtime", "size")
    return Scans(scans, bins, source.facility, project_bins, jobs)


def _fetch_bins(source: DataSource, params: Params, owner_kind: str, *histograms: str) -> Frame:
    """Return histogram rows of the chosen tree: of `owner_kind` all or project, by the names of `histograms`."""
    columns = ("scan_id", "owner", "histogram", "low", "high", "count", "bytes")
    where = {"root": params["root"], "owner_kind": owner_kind, "histogram": histograms}
    return source.frame("scan_bins", columns, where, optional=True)


@dataclass(frozen=True)
class Drift:
    """Growth as a random walk: increments over dt have mean mu*dt and variance s2*dt.

    Observations need not be evenly spaced. The first and the last give the `rate` per unit of time, those between the
    `variance` per unit of time, None with fewer than three.
    """

    rate: float
    variance: float | None
    span: float
    steps: int

    @classmethod
    def of(cls, times: Floats, values: Floats) -> Drift | None:
        """Return the drift of two or more observations at increasing times; None with fewer."""
        dt, dv = np.diff(np.asarray(times, np.float64)), np.diff(np.asarray(values, np.float64))
        if len(dt) == 0 or (dt <= 0).any():
            return None
        span = float(dt.sum())
        rate = float(dv.sum()) / span
        # Standardised residuals have variance s2; one degree of freedom went to the rate.
        residual = (dv - rate * dt) ** 2 / dt
        return cls(rate, float(residual.sum()) / (len(dt) - 1) if len(dt) > 1 else None, span, len(dt))

    def _quantile(self, level: float) -> float:
        """Student's t at this central level."""
        return -float(stdtrit(self.steps - 1, (1 - level) / 2))

    def reaches(self, distance: float) -> float | None:
        """Time until it has grown by `distance`; None if the number does not grow."""
        if distance <= 0:
            return 0.0
        return distance / self.rate if self.rate > 0 else None

    def reach_interval(self, distance: float, level: float) -> tuple[float, float | None] | None:
        """Times between which it reaches `distance`; no upper end where it may never.

        After t the growth is mu*t with variance s2*t*(1 + t/T): its random steps, and the error of the drift.
        """
        if self.variance is None or distance <= 0:
            return None
        if self.variance == 0:
            exact = self.reaches(distance)
            return None if exact is None else (exact, exact)
        q, s2, span, mu = self._quantile(level), self.variance, self.span, self.rate
        # The bounds d = mu t +- q sqrt(s2 t (1 + t/T)) are the roots of a t^2 - b t + d^2 = 0.
        low_slope, high_slope = mu - q * math.sqrt(s2 / span), mu + q * math.sqrt(s2 / span)
        if high_slope <= 0:
            return None
        a, b = low_slope * high_slope, 2 * distance * mu + q * q * s2
        root = math.sqrt(b * b - 4 * a * distance**2)
        # A lower bound that does not rise may never reach the distance.
        return 2 * distance**2 / (b + root), (b + root) / (2 * a) if low_slope > 0 else None


def run_contents(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make fig. 8 and Table III from the scans of one tree."""
    jobs = source.frame("jobs", ("uid", "account"), {"step": ""}, optional=True)
    scans = _fetch_scans(source, params, _fetch_bins(source, params, "project", "capacity", "size"), jobs)
    if scans is None:
        return
    totals = {name: bins.files for name, bins in scans.projects(-1, "size").items()}
    dominant = min(totals, key=lambda name: (-totals[name], name)) if totals else None
    project = params["project"] or dominant
    if scans.histogram(-1, "size").files:
        yield size_exhibit(scans, project)
    yield growth_exhibit(scans, project, params["files_target"])


@exhibit("car11.fig8")
def size_exhibit(scans: Scans, project: str | None) -> Iterator[Piece]:
    """Files and data by size in the newest scan."""
    sizes = scans.histogram(-1, "size")
    own = scans.of_project(-1, "size", project) if project else None
    rest = sizes.without(own) if own is not None else None
    rest = rest if rest is not None and rest.files else None
    series = {"all files": sizes, **({f"without {project}": rest} if rest else {})}
    ranges = {}
    for name, bins in series.items():
        suffix, mode = "" if bins is sizes else "_without", int(np.argmax(bins.count))
        low, high, n = int(bins.low[mode]), int(bins.high[mode]), bins.files
        ranges[name] = f"{format_bytes(low)} and {format_bytes(high)}"
        method = "most frequent power-of-two range"
        yield plain(f"mode_low{suffix}", low, "bytes", n=n, method=method)
        yield plain(f"mode_high{suffix}", high, "bytes", n=n, method=method)
        yield plain(f"mode_files{suffix}", int(bins.count[mode]), "count", n=n, method=method)
        for label, limit in (_LIMITS if bins is sizes else {"1 MiB": MIB}).items():
            share, method = bins.below(limit)[0] / n, "share below the power of two; exact count"
            yield plain(f"below_ratio{suffix}[{label}]", share, "ratio", n=n, method=method)
        if bins is sizes:
            yield plain("largest", scans.numbers("largest_file_bytes")[-1], "bytes", n=n, method="maximum")
    columns = (
        "low: from [bytes]; high: to [bytes]; files: files [count]; bytes: bytes [bytes]; "
        "below: files below `to` [ratio]"
    )
    numbers = [sizes.low, sizes.high, sizes.count, sizes.bytes, sizes.count.cumsum() / sizes.files]
    if rest is not None:
        columns, numbers = f"{columns}; rest: files without {project} [count]", [*numbers, rest.count]
    yield table("sizes", columns, *numbers, title="Files by size, in powers of two")
    total = max(1, sizes.total_bytes)
    shares = [
        (name, int(high), float(share))
        for name, bins in series.items()
        for high, share in zip(bins.high, bins.count.cumsum() / bins.files, strict=True)
    ]
    drawn = ResultTable.of(
        "size_cdf", "series [text]; size: file size below [bytes]; share: share of files [ratio]", shares
    )
    line, title = Reference("x", float(MIB), "1 MiB"), "Share of files below each size"
    yield Chart.of("cdf", drawn, "x=size y=share series", title, log="x", references=(line,))
    files, held = sizes.below(MIB)
    small = f"{format_ratio(files / sizes.files)} are below 1 MiB and contain {format_ratio(held / total)} of the data"
    yield Finding(f"Of {sizes.files:,} files {small}.", name="small_files")
    yield Finding(f"Most files are between {ranges['all files']}.", name="usual_sizes")
    if own is None or project is None:
        text = "The owners of these files are unknown, so no project can be excluded."
        yield Finding(text, "undecided", name="owners_unknown")
    else:
        of_files, of_bytes = own.files / sizes.files, own.total_bytes / total
        stored = f"{format_bytes(own.total_bytes)} ({format_ratio(of_bytes)} of the bytes)"
        most = f"{own.files:,} ({format_ratio(of_files)}), and {stored}"
        yield Finding(f"{project} has the most files: {most}.", name="largest_owner")
        if rest is None:
            yield Finding(f"All files belong to {project}.", "undecided", name="one_owner")
        else:
            few, between = format_ratio(rest.below(MIB)[0] / rest.files), ranges[f"without {project}"]
            text = f"Without {project}, most files would be between {between}, and {few} would be below 1 MiB."
            yield Finding(text, name="without_largest_owner")
    if not bool(scans.frame.array("complete")[-1]):
        unreadable = scans.numbers("unreadable_count")[-1]
        what = f"{unreadable:,} directories could not be read" if unreadable else "its list was cut short"
        yield f"The scan is incomplete: {what}."
    yield "Bins are powers of two, so 2 MB and 128 MB become 2 MiB and 128 MiB."
    if project is not None:
        yield "Paths and groups are assigned to projects by the rules at scan time."
        if scans.accounts:
            yield "Users without a rule belong to the account that all their jobs use."


@exhibit("car11.table3")
def growth_exhibit(scans: Scans, project: str | None, target: int | None) -> Iterator[Piece]:
    """Growth of file count and data between scans, and the predicted day of a given file count."""
    moments, changes = scans.moments_ns, scans.frame.rows > 1
    # Allocated bytes where every scan has them, else sizes.
    what = "size" if None in scans.numbers("capacity_bytes") else "capacity"
    totals = {
        "used": [n or 0 for n in scans.numbers("file_bytes" if what == "size" else "capacity_bytes")],
        "files": [n or 0 for n in scans.numbers("file_count")],
    }
    own: dict[str, list[int]] = {}
    if project:
        own["used"] = [scans.of_project(i, what, project).total_bytes for i in range(scans.frame.rows)]
        own["files"] = [scans.of_project(i, "size", project).files for i in range(scans.frame.rows)]
    columns = "scan: scan [text]"
    shown = [[*(utc_day(int(moment)) for moment in moments), *(["change"] if changes else [])]]
    for suffix, label, numbers in (("", "", totals), ("_project", f", {project}", own)):
        for name, values in numbers.items():
            columns += f"; {name}{suffix}: {name}{label} [text]"
            change = _relative_growth(values)
            words = [format_bytes(value) if name == "used" else f"{value:,}" for value in values]
            shown.append(words + ([f"{change:+.1%}" if change is not None else "–"] if changes else []))
    yield table("growth", columns, *shown, title="Growth")
    if not changes:
        yield Finding("Growth needs a second scan of the same tree.", "undecided", name="second_scan_needed")
    else:
        for name, title, unit in (("files", "Files", "count"), ("used", "Bytes", "bytes")):
            lines = {"all": totals[name], **({str(project): own[name]} if own else {})}
            points: list[tuple[Cell, ...]] = []
            for series, values in lines.items():
                points += [(int(time), series, value) for time, value in zip(moments, values, strict=True)]
            text = f"time [time_ns]; series [text]; value: {title.lower()} [{unit}]"
            drawn = ResultTable.of(title.lower(), text, points)
            yield Chart.of("timeline", drawn, "x=time y=value series", f"{title} per scan")
        yield _growth_since(moments, totals, own, project)
        yield _forecast(scans, totals["files"], target)
    yield f"Used is {'the allocated size' if what == 'capacity' else 'the sum of sizes (allocation unknown)'}."
    unreadable = [n for n in scans.numbers("unreadable_count") if n]
    if unreadable:
        yield f"{len(unreadable)} scans could not read some directories, so their growth is unknown."
    yield Coverage(scans.frame.rows, int(np.sum(scans.frame.array("complete"))), "scans complete")


def _relative_growth(values: Sequence[int]) -> float | None:
    """Return the relative change from the first value to the last; None without values or from 0."""
    return values[-1] / values[0] - 1 if values and values[0] else None


def _growth_since(
    moments: Ints, totals: Mapping[str, list[int]], own: Mapping[str, list[int]], project: str | None
) -> Iterator[Piece]:
    """Growth of files and bytes from the first to the last scan, and the share of the project in it."""
    method, changes = "first to last scan", {name: _relative_growth(values) for name, values in totals.items()}
    for name, change in changes.items():
        yield plain(f"{name}_growth", change, "ratio", method=method)
    for suffix, numbers in (("", totals), ("_project", own)):
        for name, values in numbers.items():
            unit = "bytes" if name == "used" else "count"
            yield plain(f"{name}{suffix}[first scan]", values[0], unit)
            yield plain(f"{name}{suffix}[last scan]", values[-1], unit)
    more_files, more_bytes = changes["files"], changes["used"]
    if more_files is not None and more_bytes is not None and more_files > 0:
        faster = more_files / more_bytes if more_bytes > 0 else math.inf
        yield Estimate("files_growth_over_used_growth", faster, "factor", method=method)
    days = (int(moments[-1]) - int(moments[0])) / DAY_NS
    by_files, by_bytes = ("an unknown share" if n is None else f"{n:+.1%}" for n in (more_files, more_bytes))
    yield Finding(
        f"In {days:.0f} days, the number of files changed by {by_files} to {totals['files'][-1]:,}, and the amount "
        f"of data by {by_bytes} to {format_bytes(totals['used'][-1])}.",
        name="growth",
    )
    if own:
        for name, values in own.items():
            yield plain(f"{name}_growth_project", _relative_growth(values), "ratio", method=method)
        of_files, of_bytes = (
            (own[name][-1] - own[name][0]) / new if (new := totals[name][-1] - totals[name][0]) > 0 else None
            for name in ("files", "used")
        )
        yield plain("new_files_project_ratio", of_files, "ratio", method=method)
        yield plain("new_bytes_project_ratio", of_bytes, "ratio", method=method)
        if of_files is not None:
            bytes_part = f", and {of_bytes:.0%} of the new data" if of_bytes is not None else ""
            text = f"{project} accounts for {of_files:.0%} of the new files{bytes_part}."
            yield Finding(text, name="project_behind_growth")


def _forecast(scans: Scans, files: list[int], target: int | None) -> Iterator[Piece]:
    """The date at which there are `target` files; default: the next power of ten."""
    moments = scans.moments_ns
    growth, last_ns = Drift.of(moments / DAY_NS, np.array(files)), int(moments[-1])
    goal = target or (int(10 ** (math.floor(math.log10(files[-1])) + 1)) if files[-1] > 0 else 10)
    if growth is not None:
        yield plain("files_per_day", growth.rate, "count", n=growth.steps, method="from the first to the last scan")
    yield plain("files_forecast", goal, "count", method="requested number, or the next power of ten")
    date = _date_reached("files_forecast_month", growth, goal - files[-1], last_ns) if growth is not None else None
    if growth is not None and date is not None:
        yield date
    if date is None or date.value is None:
        yield Finding(f"The number of files does not grow towards {goal:,}.", "undecided", name="goal")
        return
    if date.low is None:
        between = "no confidence interval: only two scans"
    else:
        first = utc_day(int(date.low))
        to = f"not before {first}, perhaps never" if date.high is None else f"{first} to {utc_day(int(date.high))}"
        between = f"{LEVEL:.0%}: {to}"
    text = f"At this rate, there will be {goal:,} files on {utc_day(int(date.value))} ({between})."
    yield Finding(text, name="goal")


def _date_reached(name: str, growth: Drift, distance: float, last_ns: int) -> Estimate:
    """Return the estimated date at which the growth covers a distance."""

    def moment(days: float | None) -> float | None:
        return None if days is None or days > _FAR_DAYS else float((last_ns + round(days * DAY_NS)) // DAY_NS * DAY_NS)

    value = moment(growth.reaches(distance))
    bounds = growth.reach_interval(distance, LEVEL)
    if bounds is None:
        return Estimate(
            name, value, "time_ns", n=growth.steps, method=_TWO_SCANS if value else "the number does not grow"
        )
    low, high = moment(bounds[0]), moment(bounds[1])
    method = _DRIFT if high is not None else f"{_DRIFT}; the number may never be reached"
    return Estimate(name, value, "time_ns", low, high, LEVEL, growth.steps, method)


def run_overwriting(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make the exhibit on overwriting from logs, scans or both."""
    runs, scans = source.frame("job_io", _WRITTEN, optional=True), _fetch_scans(source, params)
    logs = source.frame("applications", names_of("log_digest uid exe"), optional=True)
    place = rows_of(logs.text("log_digest"), runs.text("log_digest"))
    program = np.append(number_programs(logs), -1)[place]
    # A run whose program is not known resembles no other.
    runs = runs.with_columns(program=np.where(program < 0, -1 - np.arange(runs.rows), program))
    ages = scans.histogram(-1, "mtime") if scans is not None else None
    ages = ages if ages is not None and ages.files else None
    if ages is not None or runs.rows:
        yield overwriting_exhibit(runs, ages)


@exhibit("car11.overwrite")
def overwriting_exhibit(runs: Frame, ages: Bins | None) -> Iterator[Piece]:
    """Age of unmodified data in the newest scan, and the share of new files among written files in logs."""
    if ages is not None:
        yield _data_age(ages)
    if not runs.rows:
        yield "No data on files that jobs wrote. Ingest Darshan logs."
    else:
        yield _written_files(runs, ages)
    if ages is None:
        yield "The age of data comes from file system scans. Create one with `ioweather scan`."


def _data_age(ages: Bins) -> Iterator[Piece]:
    """Bytes and files by the time since they were modified."""
    total = ages.total_bytes

    def older(days: int) -> tuple[int, int]:
        """Return files and bytes that were not modified for so many days."""
        over = ages.low >= days
        return int(ages.count[over].sum()), int(ages.bytes[over].sum())

    def share(days: int) -> float | None:
        return older(days)[1] / total if total else None

    for days in AGES_DAYS:
        held, ratio, method = older(days)[1], share(days), "share of data, exact count"
        yield plain(f"unmodified_ratio[{days} d]", ratio, "ratio", n=ages.files, method=method)
        if ratio is None:
            yield Finding(
                f"The scan has no data of known age, so the share older than {days} days is unknown.",
                "undecided",
                name="old_data",
            )
        else:
            text = (
                f"{format_bytes(held)} of the data ({format_ratio(ratio)}) was not modified for at least {days} days."
            )
            yield Finding(text, name="old_data")
    yield plain("files_present", ages.files, "count", method="files in the newest scan")
    edges = [int(edge) for edge in ages.low if edge > 0]
    columns = (
        "age: not modified for (days) [count]; files: files [count]; files_ratio: of the files [ratio]; "
        "bytes: bytes [bytes]; bytes_ratio: of the bytes [ratio]"
    )
    rows = [(edge, n, n / ages.files, held, share(edge)) for edge in edges for n, held in [older(edge)]]
    yield ResultTable.of("data_age", columns, rows, "Age of the data by modification time")
    series = {"files": ages.count.cumsum() / ages.files, "bytes": ages.bytes.cumsum() / max(1, total)}
    cumulated = ((n, int(edge), float(s)) for n, v in series.items() for edge, s in zip(ages.high, v, strict=True))
    drawn = ResultTable.of(
        "age_cdf", "series [text]; days: modified within (days) [count]; share: share [ratio]", cumulated
    )
    lines = tuple(Reference("x", float(days), f"{days} days") for days in AGES_DAYS)
    title = "Files and data by time since modification"
    yield Chart.of("cdf", drawn, "x=days y=share series", title, log="x", references=lines)
    yield (
        "Ages are based on modification times in the newest scan. A copy that keeps its times looks old, and a "
        "touched file looks new."
    )
    yield "Data that was written and deleted between scans is not included."


def _written_files(runs: Frame, ages: Bins | None) -> Iterator[Piece]:
    """Whether written files were new: by the size at open where the log has it, else by a named proxy."""

    def total(of: Frame, *names: str) -> int:
        return sum(int(of.ints(f"{name}_count").sum()) for name in names)

    both = ("write_only_file", "read_write_file")
    written, known, new = total(runs, *both), total(runs, "size_known_file"), total(runs, "new_or_empty_file")
    proxy_runs = runs.take(runs.text("create_rule").equals("written_whole"))
    proxy_written, proxy = total(proxy_runs, *both), total(proxy_runs, "create")
    yield plain("files_written", written, "count", n=runs.rows, method="sum over runs")
    for name, of, part, whole in (
        ("new_or_empty_ratio", runs, ("new_or_empty_file",), ("size_known_file",)),
        ("proxy_created_ratio", proxy_runs, ("create",), both),
    ):
        parts, wholes = (sum(of.ints(f"{column}_count") for column in columns) for columns in (part, whole))
        yield grouped_share(name, np.minimum(parts, wholes), np.asarray(wholes), of.ints("program"))
    yield Finding(f"Jobs wrote {written:,} files.", name="files_written")
    if known:
        yield Finding(f"{new:,} of {known:,} written files were new or empty when first opened.", name="new_files")
    else:
        text = "No log records file sizes at open (Darshan 3), so it is unknown whether the files were new."
        yield Finding(text, "undecided", name="new_files_unknown")
    if proxy_written:
        share = format_ratio(proxy / proxy_written)
        text = f"According to the proxy, {share} of {proxy_written:,} written files were new."
        yield Finding(text, name="new_files_by_proxy")
    if written and ages is not None:
        # car11 IV-B: jobs wrote more files than are there.
        text = f"Jobs wrote {written:,} files; the scan contains {ages.files:,}."
        if written > ages.files:
            there = f"the scan contains {ages.files:,}, so most were deleted or rewritten"
            text = f"Jobs wrote {written:,} files; {there}."
        yield Finding(text, name="short_lived_files")
    yield "A new or empty file was not always created by the job: an existing empty file counts too."
    yield "The proxy counts a file that the job overwrote completely as new."
    yield "Each run counts a file once. A file written by several runs counts once for each run."
    yield Coverage(written, known, "files written", {"size at open not recorded": written - known})


ROOT: Final = Param(
    "root",
    "scanned directory; default: the directory with the most files",
    choose=lambda inventory, _: inventory.scalar(
        "SELECT root FROM scans GROUP BY root ORDER BY arg_max(file_count, start_ns) DESC, root LIMIT 1"
    ),
)
_SCANS: Final = names_of("""
    scan_id start_ns root complete file_count file_bytes capacity_bytes largest_file_bytes unreadable_count
""")
_WRITTEN: Final = names_of("""
    log_digest start_ns write_only_file_count read_write_file_count size_known_file_count new_or_empty_file_count
    create_count create_rule
""")


CONTENTS = Study(
    name="contents",
    exhibits=("car11.fig8", "car11.table3"),
    needs="scans scan_bins jobs?",
    run=run_contents,
    params=(
        ROOT,
        Param("project", "project to show separately; default: the project with the most files"),
        Param("files_target", "number of files to predict; default: the next power of ten", kind="int"),
    ),
)
OVERWRITING = Study(
    "overwriting", ("car11.overwrite",), "job_io? applications? scans? scan_bins?", run_overwriting, params=(ROOT,)
)
