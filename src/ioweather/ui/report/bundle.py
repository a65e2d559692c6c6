"""A folder that others can check: data, tables and figures of all exhibits, parameters, checksums and versions.

Research Object Crate 1.1 describes it (ro-crate-metadata.json), which archives such as Zenodo and WorkflowHub read.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from ioweather._version import __version__
from ioweather.core.clock import now_ns
from ioweather.core.errors import UsageError
from ioweather.core.papers import PAPERS
from ioweather.core.papers.claims import judged
from ioweather.core.progress import Progress, silent
from ioweather.core.results import Exhibit, to_jsonable
from ioweather.core.units import format_time_ns
from ioweather.ui.publish import write_exhibit
from ioweather.ui.report.write import Material, without_repeats

_PACKAGES: Final = ("duckdb", "deltalake", "numpy", "scipy", "vl-convert-python")
_KINDS: Final = {
    ".csv": "text/csv", ".json": "application/json", ".md": "text/markdown", ".pdf": "application/pdf",
    ".tex": "application/x-tex",
}  # fmt: skip
_README: Final = """\
# Exhibits of {name}

{count} tables and figures of five papers on parallel I/O, made from the data of {name} by ioweather {version}.
Period: {period}.{simulated}

| file | content |
|---|---|
| `data/` | each exhibit as JSON: estimates with intervals and methods, tables, parameters, coverage and caveats |
| `tables/` | the tables as CSV and LaTeX (booktabs) |
| `figures/` | the figures as PDF |
| `claims.json` | verdict on each claim of the papers at this site |
| `versions.json` | versions of the software and of the lake's tables |
| `SHA256SUMS` | checksums: `sha256sum --check SHA256SUMS` |

## Reproduce

```
pip install "ioweather=={version}"
{command}
```

The lake is not included. `data/*.json` contains the parameters of each exhibit. With the same lake the numbers are
identical to the last digit, because resampling uses fixed seeds.

## Papers

{papers}

## Left out

{left_out}
"""


def check_bundle(folder: Path) -> None:
    """Raise UsageError unless `folder` can become a bundle, before any work is done."""
    try:
        import rocrate.rocrate  # noqa: F401  an optional package
    except ImportError:
        raise UsageError("--bundle needs the package rocrate.", hint="pip install 'ioweather[bundle]'") from None
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"--bundle {folder}: exists and is not an empty folder.")


def write_bundle(
    material: Material, folder: Path, *, command: str, anonymous: bool = False, progress: Progress = silent
) -> int:
    """Write all exhibits of a report's material as files with checksums and metadata; returns the number of files."""
    made = [item.exhibit for item in without_repeats(material.made)]
    if anonymous:
        material = replace(material, facility=replace(material.facility, name="a facility"))
        made = [replace(exhibit, provenance=replace(exhibit.provenance, lake="")) for exhibit in made]
    try:
        for name in ("data", "tables", "figures"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for number, exhibit in enumerate(made):
            progress(number, len(made), exhibit.id)
            _write_files(exhibit, folder, material)
        progress(len(made), len(made), "")
        _write_json(folder / "claims.json", list(_claims(made)))
        _write_json(folder / "versions.json", _versions(material))
        (folder / "README.md").write_text(_readme(material, made, command), encoding="utf-8")
        _write_metadata(folder, material)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        sums = "".join(f"{sha256_of(path)}  {path.relative_to(folder)}\n" for path in files)
        (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--bundle {folder}: {error.strerror}.") from None
    return len(files) + 1


def sha256_of(path: Path) -> str:
    """Return the SHA-256 digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_files(exhibit: Exhibit, folder: Path, material: Material) -> None:
    origin = f"{material.facility.name}, {exhibit.id}, ioweather {__version__}"
    write_exhibit(exhibit, folder / "data" / f"{exhibit.id}.json")
    if any(table.rows for table in exhibit.tables):
        for ending in (".csv", ".tex"):
            write_exhibit(exhibit, folder / "tables" / f"{exhibit.id}{ending}", origin=origin)
    if exhibit.charts:
        write_exhibit(exhibit, folder / "figures" / f"{exhibit.id}.pdf", origin=origin)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _claims(made: list[Exhibit]) -> Iterator[dict[str, Any]]:
    for exhibit in made:
        for each in judged(exhibit.id, exhibit.estimates):
            estimate = to_jsonable(each.estimate) if each.estimate else None
            body = {"id": each.claim.id, "text": each.claim.text, "criterion": each.claim.criterion}
            yield {**body, "ours": each.claim.because, "standing": each.standing, "estimate": estimate, "why": each.why}


def _versions(material: Material) -> dict[str, Any]:
    packages = {name: version(name) for name in _PACKAGES}
    return {
        "ioweather": __version__,
        "python": platform.python_version(),
        "packages": packages,
        "facility_digest": material.facility.digest,
        "table_versions": dict(material.table_versions),
        "table_rows": dict(material.table_rows),
        "period_ns": list(material.period_ns),
        "made": format_time_ns(now_ns()),
    }


def _period(material: Material) -> str:
    if material.span_ns is None:
        return "no data"
    low, high = max(material.period_ns[0], material.span_ns[0]), min(material.period_ns[1], material.span_ns[1])
    return f"{format_time_ns(low)[:10]} to {format_time_ns(high)[:10]}"


def _readme(material: Material, made: list[Exhibit], command: str) -> str:
    simulated = "\nThis facility is simulated: nothing here was measured." if material.facility.simulated else ""
    left_out = [f"- {item.id}: {item.reason}" for item in material.left_out]
    return _README.format(
        name=material.facility.name,
        count=len(made),
        version=__version__,
        period=_period(material),
        simulated=simulated,
        command=command,
        papers="\n".join(f"- {key}: {paper.citation}" for key, paper in PAPERS.items()),
        left_out="\n".join(left_out) or "Everything was made.",
    )


def _write_metadata(folder: Path, material: Material) -> None:
    """Write ro-crate-metadata.json about the files that are in the folder."""
    from rocrate.model.contextentity import ContextEntity
    from rocrate.model.softwareapplication import SoftwareApplication
    from rocrate.rocrate import ROCrate

    crate = ROCrate()
    crate.name = f"Exhibits of {material.facility.name}"
    crate.description = f"Tables and figures of five papers on parallel I/O, made from data of {_period(material)}."
    crate.root_dataset["keywords"] = ["HPC", "parallel I/O", "storage"]
    properties = {"name": "ioweather", "version": __version__, "softwareVersion": __version__}
    software = crate.add(SoftwareApplication(crate, "#ioweather", properties=properties))
    papers = []
    for paper in PAPERS.values():
        about = {"@type": "ScholarlyArticle", "name": paper.title, "datePublished": str(paper.year)}
        papers.append(crate.add(ContextEntity(crate, f"https://doi.org/{paper.doi}", properties=about)))
    crate.root_dataset["citation"] = papers
    made = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        about = {"name": name, "encodingFormat": _KINDS.get(path.suffix, "text/plain"), "sha256": sha256_of(path)}
        made.append(crate.add_file(path, name, properties=about, record_size=True))
    crate.add_action(software, identifier="#report", result=made, properties={"name": "ioweather report --bundle"})
    crate.metadata.write(folder)
