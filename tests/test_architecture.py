"""The import rules of docs/design.md, checked on the source."""

import ast
import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "easyvideor1"
DESIGN = (Path(__file__).parents[1] / "docs" / "design.md").read_text()
BASE = set(re.findall(r"(\w+)\.py", re.search(r"^\| base \|(.*)\|", DESIGN, re.MULTILINE)[0]))  # type: ignore[index]
ROOMS = {
    name: set(re.findall(r"[a-z]+", imports))
    for name, imports in re.findall(r"^\| `(\w+)/` \|.*\| ([a-z, -]+) \|$", DESIGN, re.MULTILINE)
}
DOORS = {
    package: re.findall(r"`([^`]+)`", places)
    for package, places in re.findall(r"^\| `(\w+)` \| (`.*`) \|$", DESIGN, re.MULTILINE)
}
MAX_COMMAND_LINES = 120


def imports(tree: ast.AST) -> set[str]:
    """Every module that is imported at run time, `from package import module` counted as package.module."""
    names: set[str] = set()
    for node in _run_time_nodes(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            is_root = node.module == ROOT.name
            names |= {f"{node.module}.{alias.name}" for alias in node.names} if is_root else {node.module}
    return names


def _run_time_nodes(tree: ast.AST):
    """All nodes except those under `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from _run_time_nodes(node)


@functools.cache
def modules(root: Path) -> dict[str, ast.AST]:
    return {path.relative_to(root).as_posix(): ast.parse(path.read_text()) for path in sorted(root.rglob("*.py"))}


def broken_imports(root: Path) -> list[str]:
    broken = []
    for file, tree in modules(root).items():
        home = file.split("/")[0].removesuffix(".py")
        if home in ("__init__", "__main__"):
            continue
        may = BASE | ROOMS.get(home, set()) | {home, "__version__"}
        for name in sorted(imports(tree)):
            top, *rest = name.split(".")
            if top == ROOT.name and rest and rest[0] not in may:
                broken.append(f"{file} imports {name}; {home} may import {sorted(ROOMS.get(home, set()))}")
            doors = DOORS.get(top, [file])
            if not any(file == door or (door.endswith("/") and file.startswith(door)) for door in doors):
                broken.append(f"{file} imports {top}; only {', '.join(doors)} may")
    return broken


def test_the_tables_are_read():
    assert {path.stem for path in ROOT.glob("[a-z]*.py")} == BASE
    assert {"jobs", "video", "runs", "cli"} <= ROOMS.keys()
    assert {"av", "torch", "transformers", "peft", "openai", "ray", "numba"} <= DOORS.keys()
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and list(path.glob("*.py"))}
    assert rooms <= ROOMS.keys()


def test_imports_follow_the_tables():
    broken = broken_imports(ROOT)
    assert not broken, "\n".join(broken)


def test_rooms_import_upwards_in_the_table_only():
    order = list(ROOMS)
    broken = [
        f"{room} may import {other}, which stands below it"
        for room, others in ROOMS.items()
        for other in others
        if order.index(other) >= order.index(room)
    ]
    assert not broken, "\n".join(broken)


def test_no_module_imports_itself_through_others():
    known = {f"{ROOT.name}." + file.removesuffix(".py").replace("/", "."): tree for file, tree in modules(ROOT).items()}
    known = {name.removesuffix(".__init__"): tree for name, tree in known.items()}
    edges = {name: {target for target in imports(tree) if target in known} for name, tree in known.items()}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            for target in sorted(edges[name]):
                visit(target, (*path, name))
            done.add(name)

    for name in edges:
        visit(name, ())


def test_the_rule_sees_a_broken_import(tmp_path):
    (tmp_path / "rewards").mkdir()
    (tmp_path / "rewards" / "x.py").write_text("import av\nfrom easyvideor1.training import trainer\n")
    assert len(broken_imports(tmp_path)) == 2


def test_commands_are_short():
    sizes = {path.name: len(path.read_text().splitlines()) for path in (ROOT / "cli").glob("*.py")}
    assert not {name: size for name, size in sizes.items() if size > MAX_COMMAND_LINES}


LIGHT = ("easyvideor1", "easyvideor1.config", "easyvideor1.types", "easyvideor1.cli", "easyvideor1.rollout.engine",
         "easyvideor1.rollout.fake", "easyvideor1.rewards.pool", "easyvideor1.video.pool")  # fmt: skip


@pytest.fixture(scope="module")
def imported_by_light_modules() -> dict[str, set[str]]:
    """Light module -> the heavy packages that are there when it and those before it are imported."""
    code = f"""
import importlib, json, sys
found = {{}}
for name in {LIGHT}:
    importlib.import_module(name)
    found[name] = [package for package in ("torch", "numba") if package in sys.modules]
print(json.dumps(found))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return {name: set(packages) for name, packages in json.loads(done.stdout).items()}


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_import_neither_torch_nor_numba(
    module: str, imported_by_light_modules: dict[str, set[str]]
) -> None:
    """numba is for processes that draw frames: one that only plans starts twice as fast without."""
    assert not imported_by_light_modules[module]
