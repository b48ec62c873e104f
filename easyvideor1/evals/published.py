"""Scores that others published, with what is known of the conditions; by benchmark."""

from __future__ import annotations

from collections.abc import Mapping

from easyvideor1.evals.benchmark import Published

_REPORT = "EasyVideoR1 report, Figure 2, bar heights"
_TEAM = "Qwen3-VL"


def _figure2(metric: str, instruct: float, thinking: float, trained: float, about: str) -> tuple[Published, ...]:
    values = {"Qwen3-VL-8B-Instruct": instruct, "Qwen3-VL-8B-Thinking": thinking, "Qwen3-VL-8B + RL": trained}
    return tuple(
        Published(model=model, score=score, metric=metric, source=f"{_REPORT}; {about}")
        for model, score in values.items()
    )


def _qwen(metric: str, thread: str, **scores: float) -> tuple[Published, ...]:
    """Scores of the Qwen3-VL team by size, such as b8=71.4; "" as thread: recalled, not checked."""
    return tuple(
        Published(
            model=f"Qwen3-VL-{size[1:]}B-{'Thinking' if size.startswith('t') else 'Instruct'}",
            score=score,
            metric=metric,
            source=f"{_TEAM} report, {thread or 'recalled, to be checked against arXiv:2511.21631'}",
            is_verified=bool(thread),
        )
        for size, score in scores.items()
    )


PUBLISHED: Mapping[str, tuple[Published, ...]] = {
    "videomme": _qwen("accuracy", "lmms-eval#912 and Qwen3-VL#1772", b2=61.9, b4=69.3, b8=71.4)
    + _figure2("accuracy", 69.41, 69.85, 71.48, "without subtitles"),
    "mvbench": _qwen("accuracy", "", b2=61.7, b4=68.9, b8=68.7, t8=69.0)
    + _figure2("accuracy", 67.57, 69.69, 71.08, "mean over the 3,586 prepared rows"),
    "tempcompass": _figure2(
        "accuracy", 76.58, 78.82, 76.23, "over 7,540 rows; how captions became choices is not published"
    ),
    "lvbench": _qwen("accuracy", "Qwen3-VL#1772 and #2057", b8=58.0)
    + _qwen("accuracy", "", b2=47.4, b4=56.2, t8=55.8)
    + _figure2("accuracy", 55.43, 53.69, 56.10, "1,492 questions"),
    "longvideobench": _figure2("accuracy", 61.41, 65.37, 65.52, "without subtitles"),
    "mlvu_dev": _qwen("m_avg", "", b2=68.3, b4=75.3, b8=78.1, t8=75.1),
    "mlvu_test": _figure2("accuracy", 65.74, 66.93, 65.13, "mean over the 502 items"),
    "video_holmes": _figure2("accuracy", 43.60, 43.88, 50.24, "1,837 questions"),
    "mmvu": _figure2("multiple-choice", 69.60, 72.00, 71.04, "the 625 multiple-choice questions"),
    "videommmu": _qwen("overall", "lmms-eval#932", t8=72.8)
    + _qwen("overall", "", b2=41.9, b4=56.2, b8=65.3)
    + _figure2("accuracy", 65.56, 66.44, 63.89, "mean over the 900 items"),
    "videomathqa": _figure2("accuracy", 46.43, 43.81, 53.14, "mean over the 2,100 rows, which is no official metric"),
    "vsibench": _qwen("overall", "Qwen3-VL#2028", b2=53.9, b4=58.4) + _qwen("overall", "", b8=59.4),
    "charades_sta": _qwen("miou", "Qwen3-VL#1718", b8=56.0) + _qwen("miou", "", b2=54.5, b4=55.5, t8=59.9),
}
