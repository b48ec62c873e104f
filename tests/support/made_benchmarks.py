"""A data root of three benchmarks of different families over tiny clips, and an untrained model to answer them."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from easyvideor1.demo.clips import FPS, Scene, Thing, write_clip
from easyvideor1.demo.model import new_model, save, train_tokenizer

NAMES = ("videomme", "charades_sta", "ovobench")
TEXTS = [
    "Select the best answer. What colour is the circle? A. red B. blue The best answer is: start time end time"
] * 50
PROTOCOL = """\
like: official
video: {fps: 2.0, min_frames: 2, max_frames: 8, min_pixels: 4096, max_pixels: 4096}
decoding: {temperature: 0.0, max_response_tokens: 6}
"""
LOOP = 16
LETTERED = ["A. red", "B. blue", "C. green", "D. grey"]


def make_model(folder: Path) -> Path:
    tokenizer = train_tokenizer(TEXTS)
    save(new_model(tokenizer, seed=0), tokenizer, folder)
    return folder


def clip(path: Path, number: int, *, duration_s: float = 2.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    scene = Scene(
        things=(Thing(colour="red", shape="circle", x=0.3, y=0.5, radius=0.1 + 0.01 * number, dx_per_s=0.05),),
        duration_s=duration_s,
        background="plain",
        shade=40 + 5 * number,
        texture_seed=number,
    )
    write_clip(scene, path, side_px=64)
    return path


def make_data(root: Path, *, num_videos: int = 3, num_questions: int = 3) -> Path:
    """Video-MME with a broken and a missing video, Charades-STA, and OVO-Bench; returns the protocol to ask by."""
    questions, sentences, streams = [], [], []
    for number in range(num_videos):
        clip(root / "Video-MME" / f"v{number}.mp4", number, duration_s=1.0 + number)
        clip(root / "Charades-STA" / f"c{number}.mp4", number)
        clip(root / "OVO-Bench" / "src_videos" / f"o{number}.mp4", number, duration_s=4.0)
        for question in range(num_questions):
            questions.append(videomme(number, question))
            sentences.append(f"c{number} 0.0 {1 + 0.2 * question:.1f}##the circle moves {question}.")
            streams.append(
                {"id": 10 * number + question, "task": "EPM", "video": f"o{number}.mp4", "realtime": 1 + question,
                 "question": "Where?", "answer": "left", "options": ["left", "right"], "gt": 0}
            )  # fmt: skip
    (root / "Video-MME" / "broken.mp4").write_bytes(b"no video at all" * 100)
    questions += [videomme("broken", 0), videomme("gone", 0)]
    (root / "Video-MME" / "videomme.json").write_text(json.dumps(questions))
    (root / "Charades-STA" / "charades_sta_test.txt").write_text("\n".join(sentences) + "\n")
    (root / "OVO-Bench" / "ovo_bench_new.json").write_text(json.dumps(streams))
    protocol = root / "tiny.yaml"
    protocol.write_text(PROTOCOL)
    return protocol


def add_hanging_video(root: Path) -> None:
    """A video of Video-MME that takes minutes to decode: an hour of 4K pictures behind a single key frame."""
    path = root / "Video-MME" / "hangs.mp4"
    with av.open(str(path), "w") as out:
        options = {"preset": "ultrafast", "bframes": "0", "refs": "1", "x264-params": "keyint=infinite:scenecut=0"}
        stream = out.add_stream("libx264", rate=FPS, options=options)
        stream.width, stream.height, stream.pix_fmt = 3840, 2160, "yuv420p"
        grey = np.full((2160, 3840, 3), 90, np.uint8)
        packets = []
        for number in range(LOOP + 1):
            frame = av.VideoFrame.from_ndarray(grey)
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            packets += stream.encode(frame)
        packets += stream.encode()
        content = [bytes(packet) for packet in packets]
        for number in range(3600 * FPS):
            # The numbers of frames within the stream go round after 16, so a loop of 16 follows on itself.
            packet = av.Packet(content[number if number <= LOOP else (number - 1) % LOOP + 1])
            packet.pts = packet.dts = number
            packet.time_base, packet.stream, packet.is_keyframe = Fraction(1, FPS), stream, number == 0
            out.mux(packet)
    rows = json.loads((root / "Video-MME" / "videomme.json").read_text())
    (root / "Video-MME" / "videomme.json").write_text(json.dumps([videomme("hangs", 0), *rows]))


def videomme(video: int | str, question: int) -> dict[str, object]:
    name = f"v{video}" if isinstance(video, int) else video
    return {
        "video_id": name, "duration": "short", "domain": "Life", "sub_category": "Travel", "url": "u", "videoID": name,
        "question_id": f"{name}-{question}", "task_type": "Counting Problem", "question": f"Which colour {question}?",
        "options": LETTERED, "answer": "ABCD"[question % 4],
    }  # fmt: skip


def words(model: Path, data: Path, out: Path, *more: str) -> list[str]:
    """The command line that evaluates all three."""
    return [
        "eval", "--model", str(model), "--benchmarks", ",".join(NAMES), "--data-root", str(data), "--out", str(out),
        "--protocol", str(data / "tiny.yaml"), "--dtype", "float32", "--workers", "2", "--json", *more,
    ]  # fmt: skip
