"""The import rules of docs/design.md, checked on the source."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1] / "easyvideor1"
BASE = {"types", "errors", "config", "config_tree", "problem_types", "__init__"}
MAY_IMPORT = {
    "types": set(),
    "problem_types": set(),
    "errors": set(),
    "config_tree": {"errors"},
    "config": {"config_tree", "errors", "types"},
    "video": BASE,
    "rewards": BASE,
    "algo": BASE,
    "report": BASE,
    "data": BASE | {"video"},
    "rollout": BASE | {"data"},
    "train": BASE | {"data", "rewards", "rollout", "algo", "report"},
    "evals": BASE | {"data", "rewards", "rollout", "report"},
}
MAY_IMPORT["demo"] = MAY_IMPORT["cli"] = BASE | set(MAY_IMPORT) | {"demo"}
ONE_DOOR = {
    "vllm": {"rollout/vllm.py"},
    "av": {"video/container.py", "video/packets.py", "video/pyav_decoder.py", "demo/clips.py"},
    "torchcodec": {"video/torchcodec_decoder.py"},
    "ray": {"video/ray_tasks.py"},
    "matplotlib": {"report/plots.py"},
    "openai": {"rewards/judge.py"},
}


def imports(path: Path) -> set[str]:
    """Every module a file imports, `from package import module` counted as package.module."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            is_root = node.module == ROOT.name
            names |= {f"{node.module}.{alias.name}" for alias in node.names} if is_root else {node.module}
    return names


def broken_imports(root: Path) -> list[str]:
    broken = []
    for path in sorted(root.rglob("*.py")):
        file = path.relative_to(root).as_posix()
        home = file.split("/")[0].removesuffix(".py")
        if home in ("__init__", "__main__"):
            continue
        for name in sorted(imports(path)):
            top, *rest = name.split(".")
            if top == ROOT.name and rest and rest[0] not in MAY_IMPORT[home] | {home, "__version__"}:
                broken.append(f"{file} imports {name}; {home} may import {sorted(MAY_IMPORT[home])}")
            if file not in ONE_DOOR.get(top, {file}):
                broken.append(f"{file} imports {top}; only {sorted(ONE_DOOR[top])} may")
    return broken


def test_imports_follow_the_data():
    broken = broken_imports(ROOT)
    assert not broken, "\n".join(broken)


def test_the_rule_sees_a_broken_import(tmp_path):
    (tmp_path / "rewards").mkdir()
    (tmp_path / "rewards" / "x.py").write_text("import av\nfrom easyvideor1.train import trainer\n")
    assert len(broken_imports(tmp_path)) == 2


def test_config_does_not_import_torch():
    code = "import sys, easyvideor1.config, easyvideor1.types, easyvideor1.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
