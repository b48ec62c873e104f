"""Many benchmarks in one command: how often is the model loaded, and does memory grow? `python -m perf.eval_many`

Ten benchmarks of seven families over made-up clips, `--items` questions in all, asked with an untrained tiny model in
one run. The last line is JSON:
    benchmarks, items, answered     what was asked, and what has an answer
    model_loads                     how often weights were read
    rss_mb                          memory of this process at a quarter, half, three quarters and all of the items
    growth_mb_per_1000              of memory between the first and the last quarter
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from easyvideor1.config import ModelConfig
from easyvideor1.config_data import CacheConfig
from easyvideor1.demo.clips import Scene, Thing, write_clip
from easyvideor1.demo.model import new_model, save, train_tokenizer
from easyvideor1.evals.status import Status
from easyvideor1.evals.table import benchmark_of
from easyvideor1.runs import starting_model
from easyvideor1.runs.eval_engines import EngineChoice
from easyvideor1.runs.evaluating import EvalSettings, evaluate_benchmarks

LETTERS = "ABCDEF"
OPTIONS = ["red", "blue", "green", "grey", "white", "black"]
LETTERED = [f"{letter}. {text}" for letter, text in zip(LETTERS, OPTIONS, strict=True)]
QUESTIONS_PER_VIDEO = 8
PROTOCOL = """\
like: fast
video: {fps: 2.0, min_frames: 4, max_frames: 16, min_pixels: 4096, max_pixels: 16384}
decoding: {temperature: 0.0, max_response_tokens: 6}
"""


def rows(name: str, video: str, number: int) -> dict[str, Any]:
    """A row of a benchmark in its authors' form."""
    asked, key = f"What colour is thing {number}?", f"{video}-{number}"
    choices = dict(zip(LETTERS, OPTIONS[:4], strict=False))
    inline = asked + "".join(f"\n{line}" for line in LETTERED[:4])
    made: dict[str, dict[str, Any]] = {
        "videomme": {"videoID": video, "question_id": key, "question": asked, "options": LETTERED[:4], "answer": "A"},
        "mvbench": {"video": f"{video}.mp4", "question": asked, "candidates": OPTIONS[:3], "answer": "blue"},
        "lvbench": {"key": video, "qa": [{"uid": key, "question": inline, "answer": "C", "question_type": ["x"]}]},
        "motionbench": {
            "key": video, "video_path": f"{video}.mp4", "qa": [{"uid": key, "question": inline, "answer": "B"}],
        },
        "video_holmes": {
            "video ID": video, "Question ID": key, "Question Type": "SR", "Question": asked,
            "Options": dict(zip(LETTERS, OPTIONS, strict=True)), "Answer": "F",
        },
        "minerva": {
            "key": key, "video_id": video, "question": asked, "answer": "red", "answer_id": 0,
            **{f"answer_choice_{place}": OPTIONS[place] for place in range(5)},
        },
        "mmvu": {
            "id": key, "video": f"videos/Art/{video}.mp4", "question_type": "multiple-choice", "question": asked,
            "choices": choices, "answer": "D",
        },
        "vsibench": {
            "id": number, "dataset": "made", "scene_name": video, "question_type": "object_counting",
            "question": asked, "ground_truth": "3", "options": None,
        },
        "charades_sta": {"video": f"{video}.mp4", "caption": f"thing {number} moves", "timestamp": [0.5, 1.5]},
        "ovobench": {
            "id": f"{video}{number}", "task": "EPM", "video": f"{video}.mp4", "realtime": 2, "question": asked,
            "options": OPTIONS[:4], "gt": 1,
        },
    }  # fmt: skip
    return made[name]


NAMES = (
    "videomme", "mvbench", "lvbench", "motionbench", "video_holmes", "minerva", "mmvu", "vsibench", "charades_sta",
    "ovobench",
)  # fmt: skip
FILES = {
    "mvbench": "json/action_antonym.json", "lvbench": "video_info.meta.jsonl", "motionbench": "video_info.meta.jsonl",
    "vsibench": "test.jsonl", "mmvu": "validation.json", "charades_sta": "charades_sta_test.json",
    "ovobench": "ovo_bench_new.json", "video_holmes": "test_Video-Holmes.json",
}  # fmt: skip


def make_data(root: Path, num_items: int) -> None:
    """A data root of ten benchmarks with about `num_items` questions in all."""
    num_videos = max(1, num_items // (len(NAMES) * QUESTIONS_PER_VIDEO))
    thing = Thing(colour="red", shape="circle", x=0.3, y=0.5, radius=0.15, dx_per_s=0.1)
    clips = []
    root.mkdir()
    for number in range(num_videos):
        scene = Scene(things=(thing,), duration_s=3.0, background="speckle", shade=60, texture_seed=number)
        write_clip(scene, path := root / f"clip{number}.mp4", side_px=128)
        clips.append(path.read_bytes())
        path.unlink()
    for name in NAMES:
        benchmark = benchmark_of(name)
        folder = root / benchmark.layout.folder
        path = folder / FILES.get(name, f"{name}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        found = [rows(name, f"{name}{v}", n) for v in range(num_videos) for n in range(QUESTIONS_PER_VIDEO)]
        is_lines = path.suffix == ".jsonl"
        path.write_text("\n".join(map(json.dumps, found)) if is_lines else json.dumps(found))
        for item in benchmark.load([path]).items:
            number = int(re.findall(r"\d+", Path(item.video).stem)[-1])
            video = folder / benchmark.layout.media / item.video
            video.parent.mkdir(parents=True, exist_ok=True)
            # A box of its own at the end, or equal files would share their frames in the cache.
            video.write_bytes(clips[number] + (24).to_bytes(4, "big") + b"free" + name.ljust(16).encode()[:16])


def rss_mb() -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=2000)
    args = parser.parse_args()
    num_loads, seen = [0], list[tuple[int, float]]()
    load = starting_model.load_model

    def counted(*words: Any, **more: Any) -> Any:
        num_loads[0] += 1
        return load(*words, **more)

    starting_model.load_model = counted

    def note(status: Status) -> None:
        seen.append((status.counts.answers, rss_mb()))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_data(folder / "data", args.items)
        tokenizer = train_tokenizer(["What colour is thing 1? Answer with the letter of the right option."] * 50)
        save(new_model(tokenizer, seed=0), tokenizer, folder / "model")
        (folder / "tiny.yaml").write_text(PROTOCOL)
        settings = EvalSettings(
            engine=EngineChoice(
                model=ModelConfig(path=str(folder / "model"), dtype="float32"), tokens_per_batch=16_384
            ),
            benchmarks=NAMES,
            data_root=folder / "data",
            out=folder / "out",
            protocol=str(folder / "tiny.yaml"),
            cache=CacheConfig(dir=str(folder / "frames")),
        )
        found = evaluate_benchmarks(settings, show=note)
    num_items = found["run"]["counts"]["items"]
    at = [next(rss for answers, rss in seen if answers >= share * num_items) for share in (0.25, 0.5, 0.75, 1.0)]
    told = {
        "benchmarks": len(found) - 1,
        "items": num_items,
        "answered": found["run"]["counts"]["answers"],
        "model_loads": num_loads[0],
        "decodes": found["run"]["counts"]["decodes"],
        "rss_mb": [round(rss, 1) for rss in at],
        "growth_mb_per_1000": round((at[3] - at[0]) / (0.75 * num_items) * 1000, 2),
        "wall_s": round(found["run"]["counts"]["wall_s"], 1),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
