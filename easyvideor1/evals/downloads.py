"""Where the public downloads of the benchmarks come from, and how they lie on disk."""

from __future__ import annotations

from collections.abc import Mapping

from easyvideor1.evals.benchmark import Layout

LAYOUTS: Mapping[str, Layout] = {
    "videomme": Layout(
        folder="Video-MME",
        annotations=("videomme/*.parquet", "*.json", "*.parquet"),
        source="HF lmms-lab/Video-MME",
        archives=("videos_chunked_*.zip", "subtitle.zip"),
    ),
    "videomme_v2": Layout(
        folder="Video-MME-v2",
        annotations=("test.parquet", "*.json"),
        source="HF MME-Benchmarks/Video-MME-v2",
        archives=("videos/*.zip", "subtitle.zip"),
    ),
    "mvbench": Layout(
        folder="MVBench",
        annotations=("json/*.json", "*.json"),
        media="video",
        source="HF OpenGVLab/MVBench, revision video",
        archives=("video/*.zip",),
    ),
    "tempcompass": Layout(
        folder="TempCompass",
        annotations=("questions/*.json", "meta_info.json", "*.json"),
        source="github.com/llyx97/TempCompass",
        archives=("tempcompass_videos.zip",),
    ),
    "motionbench": Layout(
        folder="MotionBench",
        annotations=("video_info.meta.jsonl", "*.json"),
        media="MotionBench",
        source="HF zai-org/MotionBench",
        archives=("*.zip", "*.tar*"),
    ),
    "lvbench": Layout(
        folder="LVBench",
        annotations=("video_info.meta.jsonl", "*.json"),
        source="HF zai-org/LVBench",
        archives=("*.zip", "*.tar*"),
    ),
    "longvideobench": Layout(
        folder="LongVideoBench",
        annotations=("lvb_val.json", "validation-*.parquet", "*.json"),
        source="HF longvideobench/LongVideoBench (gated)",
        archives=("videos.tar.part.*", "subtitles.tar"),
    ),
    "mlvu_dev": Layout(
        folder="MLVU",
        annotations=("json/*.json", "*.json"),
        source="HF MLVU/MVLU",
        archives=("video/*.zip",),
    ),
    "mlvu_test": Layout(
        folder="MLVU_Test",
        annotations=("*.json",),
        source="HF MLVU/MLVU_Test",
        archives=("*.tar*", "*.zip"),
    ),
    "video_holmes": Layout(
        folder="Video-Holmes",
        annotations=("test_Video-Holmes.json", "*.json"),
        source="HF TencentARC/Video-Holmes",
        archives=("videos.zip",),
    ),
    "minerva": Layout(
        folder="MINERVA",
        annotations=("minerva.json", "*.json"),
        source="github.com/google-deepmind/neptune",
        archives=("*.zip", "*.tar*"),
    ),
    "vcrbench": Layout(
        folder="VCR-Bench",
        annotations=("meta_info_video.json", "*.json"),
        source="HF VLM-Reasoning/VCR-Bench",
        archives=("*.zip", "*.tar*"),
    ),
    "videoreasonbench": Layout(
        folder="VideoReasonBench",
        annotations=("questions/*.json", "*.json"),
        source="github.com/llyx97/video_reason_bench, HF lyx97/reasoning_videos",
        archives=("*.zip",),
    ),
    "longvideo_reason": Layout(
        folder="LongVideo-Reason",
        annotations=("*test*.json", "*.parquet"),
        source="HF LongVideo-Reason/longvideo-reason",
        archives=("*.zip", "*.tar*"),
    ),
    "mmvu": Layout(
        folder="MMVU",
        annotations=("validation.json", "*.parquet", "*.json"),
        source="HF yale-nlp/MMVU",
        archives=("*.zip",),
    ),
    "videommmu": Layout(
        folder="VideoMMMU",
        annotations=("data/*_video.json", "*/*.parquet", "*.json"),
        source="HF lmms-lab/VideoMMMU",
        archives=("*.zip",),
    ),
    "videomathqa": Layout(
        folder="VideoMathQA",
        annotations=("*.parquet", "*/*.parquet", "*.json"),
        source="HF MBZUAI/VideoMathQA",
        archives=("*.zip",),
    ),
    "vsibench": Layout(
        folder="VSI-Bench",
        annotations=("test*.jsonl", "*.parquet", "*.json"),
        source="HF nyu-visionx/VSI-Bench",
        archives=("*.zip",),
    ),
    "charades_sta": Layout(
        folder="Charades-STA",
        annotations=("charades_sta_test.txt", "*.json"),
        source="github.com/jiyanggao/TALL, Charades_v1_480",
        archives=("Charades_v1_480.zip",),
    ),
    "stvg": Layout(
        folder="STVG",
        annotations=("stvg.json", "*annotations*.json", "*.json"),
        media="videos",
        source="HF appletea2333/ST-Align-Benchmark, VidSTG, VidOR",
        archives=("*.zip", "*.tar*"),
    ),
    "ovobench": Layout(
        folder="OVO-Bench",
        annotations=("ovo_bench_new.json", "*.json"),
        media="src_videos",
        source="HF JoeLeelyf/OVO-Bench",
        archives=("*.tar*",),
    ),
    "odvbench": Layout(
        folder="ODV-Bench",
        annotations=("*.json",),
        media="videos",
        source="HF MCG-NJU/ODV-Bench",
        archives=("*.zip", "*.tar*"),
    ),
    "livesports": Layout(
        folder="LiveSports-3K",
        annotations=("LiveSports-3K-QA.json", "*.jsonl", "*.csv"),
        source="HF stdKonjac/LiveSports-3K",
        archives=("*.zip", "*.tar*"),
    ),
}
