"""Writes constraints.txt and docs/reference/licences.md from the packages that are installed here.

    python docs/dependencies.py

To be run in an environment with all extras (`make` sets one up) in which the tests pass. Versions and licences come
from the packages' own metadata.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
PAGE = ROOT / "docs" / "reference" / "licences.md"
# Packages whose metadata have no licence, or none by name: as the text in the package or in its repository says.
KNOWN = {"axe-playwright-python": "MIT", "darshan": "BSD-like (Argonne)", "python-dateutil": "Apache-2.0"}
# Of classifiers and free texts, the identifier of SPDX.
SPDX = {
    "mit": "MIT", "mit license": "MIT", "apache software license": "Apache-2.0", "apache 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0", "apache license 2.0": "Apache-2.0",
    "bsd license": "BSD", "bsd": "BSD", "bsd 3-clause": "BSD-3-Clause", "3-clause bsd license": "BSD-3-Clause",
    "bsd 2-clause license": "BSD-2-Clause",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0", "python software foundation license": "PSF-2.0",
}  # fmt: skip
HEAD = """\
# Versions with which the tests pass on Python 3.11. Written by docs/dependencies.py; for `pip install -c`.
"""


def project() -> dict[str, list[str]]:
    """Requirements by the extra that asks for them; "" for those of every installation."""
    said = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {"": said["dependencies"], **said["optional-dependencies"]}


def needed(requirements: Iterable[str]) -> dict[str, str]:
    """All packages that these bring along, each with its marker where it is asked for in this project."""
    found: dict[str, str] = {}

    def add(texts: Iterable[str], extras: Iterable[str], *, ours: bool) -> None:
        for requirement in map(Requirement, texts):
            name, marker = canonicalize_name(requirement.name), requirement.marker
            if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                continue
            if name in found and not requirement.extras:
                continue
            try:
                package = distribution(name)
            except PackageNotFoundError:
                continue  # an option of a package that is not taken here
            found.setdefault(name, str(marker) if ours and marker is not None else "")
            add(package.requires or (), requirement.extras, ours=False)

    add(requirements, (), ours=True)
    return found


def licence(name: str) -> str:
    said = distribution(name).metadata
    if text := said.get("License-Expression"):
        return text
    if name in KNOWN:
        return KNOWN[name]
    classifiers = [c.rsplit(" :: ", 1)[-1] for c in said.get_all("Classifier") or () if c.startswith("License :: ")]
    free = said.get("License") or ""
    for text in ([free] if free and len(free) < 40 and free != "UNKNOWN" else []) + classifiers:
        return SPDX.get(text.lower(), text)
    return "unknown"


def constraints() -> str:
    every = needed([text for texts in project().values() for text in texts])
    lines = [
        f"{name}=={distribution(name).version}" + (f"; {marker}" if marker else "")
        for name, marker in sorted(every.items())
    ]
    return HEAD + "\n".join(lines) + "\n"


def page() -> str:
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    asked = project()
    run_time = needed(asked[""])
    extras = needed([text for extra in ("dask", "forest") for text in asked[extra]])
    rest = needed([text for extra in ("docs", "dev") for text in asked[extra]])
    yield from (
        "# Licences of dependencies", "",
        "ioweather is under BSD-3-Clause. What it needs is installed beside it and is not part of it. The licences",
        "are those that the packages state in their metadata, in the versions of `constraints.txt`; this page is",
        "written by `python docs/dependencies.py`. ioweather itself asks for the **bold** packages, and these for the",
        "others.", "",
    )  # fmt: skip
    direct = {canonicalize_name(Requirement(text).name) for texts in asked.values() for text in texts}
    seen: set[str] = set()
    for title, names in (
        ("At run time", run_time), ("Extras `dask` and `forest`", extras), ("Development and documentation", rest)
    ):  # fmt: skip
        yield from (f"## {title}", "", "| package | licence |", "|---|---|")
        for name in sorted(set(names) - seen):
            yield f"| {f'**{name}**' if name in direct else name} | {licence(name)} |"
        yield ""
        seen |= set(names)
    yield "Wheels of NumPy and SciPy hold libraries of GCC's run time: libgfortran (GPL-3.0 with the GCC Runtime"
    yield "Library Exception) and libquadmath (LGPL-2.1)."


def main() -> None:
    CONSTRAINTS.write_text(constraints(), encoding="utf-8")
    PAGE.write_text(re.sub(r"\n{3,}", "\n\n", page()), encoding="utf-8")


if __name__ == "__main__":
    main()
