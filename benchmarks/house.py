"""Size and shape of the source tree: `make house` prints one table, with the limits that CONTRIBUTING.md states."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "ioweather"
# Packages below the capabilities, by their present or former names.
FOUNDATION = ("core", "stats", "lake", "store", "tables", "engine")


def lines_of(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.py"))


def longest_chain(trees: dict[Path, ast.Module]) -> int:
    """Number of modules in the longest chain of imports at the top of files."""
    names = {".".join(("ioweather", *path.relative_to(SRC).with_suffix("").parts)): path for path in trees}
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}

    @cache
    def imported(name: str) -> tuple[str, ...]:
        found: set[str] = set()
        for node in trees[names[name]].body:
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= inner & names.keys() or {node.module}
        return tuple((found & names.keys()) - {name})

    @cache
    def depth(name: str) -> int:
        return 1 + max(map(depth, imported(name)), default=0)

    return max(map(depth, names))


def count_in_functions(trees: dict[Path, ast.Module]) -> int:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {
        id(node)
        for tree in trees.values()
        for function in ast.walk(tree)
        if isinstance(function, functions)
        for node in ast.walk(function)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    return len(found)


def public_classes(trees: dict[Path, ast.Module]) -> int:
    return sum(
        isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        for path, tree in trees.items()
        if path.relative_to(SRC).parts[0] in FOUNDATION
        for node in tree.body
    )


def loaded_by_why() -> int:
    """Modules of ours that `ioweather why JOB` imports, on a lake that is made for it."""
    script = """
import sys, tempfile
from pathlib import Path
import ioweather
folder = Path(tempfile.mkdtemp()) / "facility"
lake = ioweather.simulate_facility(folder, preset="laptop", days=1, seed=1)
job = lake.sql("SELECT job_id FROM applications LIMIT 1").rows[0][0]
import subprocess
inner = "import sys; from ioweather.ui.cli.main import run; run(sys.argv[1:]); " \
    "print(sum(name.startswith('ioweather') for name in sys.modules), file=sys.stderr)"
done = subprocess.run([sys.executable, "-c", inner, "why", str(job), "--lake", str(lake.root)],
                      capture_output=True, text=True)
print(done.stderr.strip().splitlines()[-1])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return int(done.stdout.strip().splitlines()[-1])


def main() -> None:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(SRC.rglob("*.py"))}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    functions = sum(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in nodes)
    names = [path.stem for path in trees if path.stem != "__init__"]
    from ioweather.ui.cli.main import COMMANDS

    rows: list[tuple[str, int, str]] = [
        ("lines of src", lines_of(SRC), "<= 68,000"),
        ("modules", len(trees), "<= 260"),
        ("longest import chain", longest_chain(trees), "<= 14"),
        ("imports inside functions", count_in_functions(trees), "<= 40"),
        ("modules that `why` loads", loaded_by_why(), "<= 90"),
        ("public classes in core, stats and lake", public_classes(trees), "<= 70"),
        ("commands", len(COMMANDS), "<= 30"),
        ("module names that occur more than once", len({name for name in names if names.count(name) > 1}), "0"),
        ("functions", functions, ""),
        ("`# fmt: skip`", sum(path.read_text("utf-8").count("# fmt: skip") for path in trees), "0"),
        ("lines of tests", lines_of(ROOT / "tests"), "<= 40,000"),
    ]
    print("| what | now | limit |\n|---|--:|--:|")
    for what, value, limit in rows:
        print(f"| {what} | {value:,} | {limit} |")


if __name__ == "__main__":
    main()
