"""constraints.txt and the list of licences, against pyproject.toml and the packages that are installed."""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
# Licences under which software that is itself under BSD may be used and distributed beside it.
ALLOWED = {
    "MIT", "MIT-0", "MIT-CMU", "BSD", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "BSD-like (Argonne)", "Apache-2.0", "ISC",
    "PSF-2.0", "Zlib", "CC0-1.0", "MPL-2.0", "CNRI-Python",
}  # fmt: skip
# MPL-2.0 is copyleft per file: fine beside, as long as nothing at run time needs it.
ONLY_FOR_DEVELOPMENT = {"MPL-2.0"}


def _script() -> ModuleType:
    found = importlib.util.spec_from_file_location("dependencies_script", ROOT / "docs" / "dependencies.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


SCRIPT = _script()
PINNED = {
    canonicalize_name(Requirement(line).name): Requirement(line)
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if not line.startswith("#")
}
ASKED = [Requirement(text) for texts in SCRIPT.project().values() for text in texts]
PAGE = dict(re.findall(r"^\| (?!package)\**([a-z0-9.-]+?)\** \| (.+) \|$", SCRIPT.PAGE.read_text(), flags=re.M))


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_every_dependency_is_pinned_within_its_bound(asked: Requirement) -> None:
    pinned = PINNED[canonicalize_name(asked.name)]
    [exact] = pinned.specifier
    assert exact.operator == "=="
    assert asked.specifier.contains(Version(exact.version))
    assert str(pinned.marker) == str(asked.marker)


def test_constraints_name_versions_alone() -> None:
    """No address, no path, no option: they are for every machine."""
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(
            r'[a-z0-9-]+==[0-9][0-9a-z.]*(; [a-z_]+ [!<>=]+ "[^"/]+"( and .*)?)?', line
        )
        assert "://" not in line
        assert "@" not in line
    assert all(pinned.url is None for pinned in PINNED.values())


def test_what_dependencies_need_is_pinned_too() -> None:
    installed = SCRIPT.needed([str(asked) for asked in ASKED])
    left_out = set(installed) - set(PINNED)
    exactly = all(version(name) == next(iter(PINNED[name].specifier)).version for name in set(installed) & set(PINNED))
    if not exactly:
        pytest.skip("other versions are installed here, and they may need other packages")
    assert not left_out


def test_every_pinned_package_has_its_licence_listed() -> None:
    assert set(PAGE) == set(PINNED)
    for name, licence in PAGE.items():
        words = set(re.split(r" (?:AND|OR) ", licence))
        assert words <= ALLOWED, f"{name}: {licence}"


def test_at_run_time_nothing_is_copyleft() -> None:
    for name in SCRIPT.needed(SCRIPT.project()[""]):
        words = set(re.split(r" (?:AND|OR) ", SCRIPT.licence(name)))
        assert words <= ALLOWED - ONLY_FOR_DEVELOPMENT, name


@pytest.mark.parametrize("name", sorted(PAGE))
def test_the_list_says_what_the_package_says(name: str) -> None:
    try:
        here = version(name)
    except PackageNotFoundError:
        pytest.skip("not installed here")
    if here != next(iter(PINNED[name].specifier)).version:
        pytest.skip("another version is installed here")
    assert SCRIPT.licence(name) == PAGE[name]
