"""A folder that others can check: data, tables and figures of all exhibits, parameters, checksums and versions.

Research Object Crate 1.1 describes it (ro-crate-metadata.json), which archives such as Zenodo and WorkflowHub read.
"""

from __future__ import annotations

import hashlib
import json
import mimetypes
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rocrate.model.contextentity import ContextEntity
from rocrate.model.softwareapplication import SoftwareApplication
from rocrate.rocrate import ROCrate

from ioweather._version import __version__
from ioweather.core.errors import UsageError
from ioweather.core.logs import Progress
from ioweather.core.papers import PAPERS
from ioweather.core.units import format_time_ns
from ioweather.ui.publish import tables_of, write_exhibit
from ioweather.ui.report.write import Material, without_repeats

_PACKAGES: Final = ("duckdb", "deltalake", "numpy", "scipy", "vl-convert-python")


def check_bundle(folder: Path) -> None:
    """Raise UsageError unless `folder` can become a bundle, before any work is done."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"--bundle {folder}: the folder exists and is not empty.")


def write_bundle(material: Material, folder: Path, command: str, progress: Progress) -> int:
    """Write all exhibits of a report's material as files with checksums and metadata; return the number of files.
    `command` makes the bundle again."""
    made, name = without_repeats(material.made), material.facility.name
    period = " to ".join(format_time_ns(end)[:10] for end in material.within_ns) if material.span_ns else "no data"
    versions = {
        "ioweather": __version__,
        "python": platform.python_version(),
        "packages": {package: version(package) for package in _PACKAGES},
        "facility_digest": material.facility.digest,
        "table_versions": dict(material.table_versions),
        "table_rows": dict(material.table_rows),
        "period_ns": list(material.period_ns),
        "made": format_time_ns(material.made_ns),
    }
    readme = Path(__file__).with_name("templates").joinpath("bundle.md").read_text("utf-8")
    text = readme.format(
        name=name,
        lake=Path(material.lake).name,
        simulated="\nThis facility is simulated: nothing here was measured." if material.facility.simulated else "",
        count=len(made),
        version=__version__,
        period=period,
        command=command,
        papers="\n".join(f"- {key}: {paper.citation}" for key, paper in PAPERS.items()),
        left_out="\n".join(f"- {each.id}: {each.reason}" for each in material.left_out) or "All exhibits were created.",
    )
    try:
        for part in ("data", "tables", "figures"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        for number, exhibit in enumerate(made):
            progress(number, len(made), exhibit.id)
            files = [("data", ".json")]
            files += [("tables", ".csv"), ("tables", ".tex")] if tables_of(exhibit) else []
            files += [("figures", ".pdf")] if exhibit.charts else []
            origin = f"{name}, {exhibit.id}, {period}, ioweather {__version__}"
            for part, ending in files:
                write_exhibit(exhibit, folder / part / f"{exhibit.id}{ending}", origin=origin)
        progress(len(made), len(made), "")
        (folder / "versions.json").write_text(json.dumps(versions, indent=1) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(text, encoding="utf-8")
        _write_metadata(folder, name, period)
        digests = _digests(folder)
        sums = "".join(f"{digest}  {file}\n" for file, digest in digests.items())
        (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--bundle {folder}: {error.strerror}.") from None
    return len(digests) + 1


def _digests(folder: Path) -> dict[str, str]:
    """The SHA-256 digest of every file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _write_metadata(folder: Path, name: str, period: str) -> None:
    """Write ro-crate-metadata.json about the files that are in the folder."""
    crate: Any = ROCrate(version="1.1")
    crate.name = f"Exhibits of {name}"
    crate.description = f"Tables and figures of five papers on parallel I/O, made from data of {period}."

    def add(kind: str, identifier: str, **about: str) -> Any:
        return crate.add(ContextEntity(crate, identifier, properties={"@type": kind, **about}))

    site = add("Organization", "#site", name=name)
    crate.root_dataset["author"] = crate.root_dataset["publisher"] = site
    asked = "Specify a licence before you publish this."
    crate.license = add("CreativeWork", "#license", name="No licence stated", description=asked)
    crate.root_dataset["keywords"] = ["HPC", "parallel I/O", "storage"]
    crate.root_dataset["citation"] = [
        add("ScholarlyArticle", f"https://doi.org/{paper.doi}", name=paper.title, datePublished=str(paper.year))
        for paper in PAPERS.values()
    ]
    about = {"name": "ioweather", "version": __version__, "softwareVersion": __version__}
    software = crate.add(SoftwareApplication(crate, "#ioweather", properties=about))
    made = []
    for file, digest in _digests(folder).items():
        about = {"name": file, "encodingFormat": mimetypes.guess_type(file)[0] or "text/plain", "sha256": digest}
        made.append(crate.add_file(folder / file, file, properties=about, record_size=True))
    crate.add_action(software, identifier="#report", result=made, properties={"name": "ioweather report --bundle"})
    crate.metadata.write(folder)
