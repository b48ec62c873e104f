"""The package as others install it: its wheel, its typing mark, its lock."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def closure(name: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """Names of a distribution and all it requires, from what is installed here."""
    found: set[str] = set()
    waiting = [(name, extras)]
    while waiting:
        name, extras = waiting.pop()
        if (key := _key(name)) in found and not extras:
            continue
        found.add(key)
        for text in importlib.metadata.requires(name) or ():
            need = Requirement(text)
            wanted = [need.marker.evaluate({"extra": extra}) for extra in (*extras, "")] if need.marker else [True]
            if any(wanted) and (_key(need.name) not in found or need.extras):
                waiting.append((need.name, frozenset(need.extras)))
    return found


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_package_of_the_scripts_is_pinned_at_the_version_that_is_installed():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    pinned = {_key(name): version for name, version in pinned.items()}
    # pip freeze leaves setuptools out: it belongs to the environment.
    for name in closure("easyvideor1", frozenset({"dev"})) - {"easyvideor1", "setuptools"}:
        assert name in pinned, f"{name} is not pinned in constraints.txt (scripts/lock.sh)"
        assert importlib.metadata.version(name).removesuffix("+cpu") == pinned[name], name


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """Python of an environment with the package's wheel and its own dependencies, without any extra."""
    folder = tmp_path_factory.mktemp("bare")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--disable-pip-version-check", "-w", folder]
    [needed] = map(Requirement, tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"])
    if importlib.metadata.version(needed.name) in needed.specifier:
        build.append("--no-build-isolation")  # what builds it need not be installed once more
    subprocess.run([*build, ROOT], check=True)
    [wheel] = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False)
    [site] = (folder / "env" / "lib").glob("python*/site-packages")
    for name in closure("easyvideor1") - {"easyvideor1"}:
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or ()} - {".."}:
            if not (site / top).exists():
                os.symlink(str(distribution.locate_file(top)), site / top)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", site, wheel], check=True)
    return folder / "env" / "bin" / "python"


def run(python: Path, *words: object) -> subprocess.CompletedProcess:
    command = [str(python), "-m", "easyvideor1", *map(str, words)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=environment)


def test_the_wheel_checks_data_tests_rewards_and_plans_videos_without_torch(bare_python, tmp_path, write_video):
    row = {"problem": "<video>?", "problem_type": "mcq", "options": ["a", "b"], "answer": "A", "videos": ["a.mp4"]}
    (tmp_path / "data.jsonl").write_text(json.dumps(row) + "\n")
    video = write_video("a.mp4")
    has_torch = subprocess.run([str(bare_python), "-c", "import torch"], capture_output=True, check=False)
    assert has_torch.returncode != 0
    for words in (
        ("data", "check", tmp_path / "data.jsonl", "--workers", 1),
        ("reward", "test", tmp_path / "data.jsonl"),
        ("video", "plan", video),
        ("config", "data"),
    ):
        done = run(bare_python, *words)
        assert done.returncode == 0, done.stderr
    where = subprocess.run(
        [str(bare_python), "-c", "import easyvideor1; print(easyvideor1.__file__)"],
        capture_output=True, text=True, check=True, cwd="/",
    ).stdout  # fmt: skip
    assert "bare" in where
    package = Path(where.strip()).parent
    assert (package / "py.typed").exists()
    assert (package / "recipes" / "demo.yaml").exists()
