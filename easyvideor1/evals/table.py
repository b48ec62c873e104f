"""The benchmarks: Table 2 of the EasyVideoR1 report, MLVU with both of its splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from easyvideor1.errors import UsageError
from easyvideor1.evals import choice_rows as rows
from easyvideor1.evals import metrics, spatial, streaming
from easyvideor1.evals.benchmark import Benchmark, Loaded
from easyvideor1.evals.downloads import LAYOUTS
from easyvideor1.evals.grounding import load_charades, load_stvg
from easyvideor1.evals.judged import load_mlvu_test, load_tempcompass, load_videommmu, mlvu_dev, mmvu, vcrbench
from easyvideor1.evals.loading import Prepared, RowReader, load
from easyvideor1.evals.published import PUBLISHED
from easyvideor1.evals.puzzles import load_videoreasonbench


def _rows(official: RowReader, prepared: RowReader | None = None) -> Callable[[Sequence[Path]], Loaded]:
    return lambda paths: load(paths, official, prepared or Prepared())


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _mlvu(name: str, title: str, num: int, loader: Callable[[Sequence[Path]], Loaded], **rest: Any) -> Benchmark:
    return Benchmark(
        name=name,
        title=title,
        category="long",
        paper_items=num,
        load=loader,
        metrics=metrics.mlvu_metrics,
        metric=("m_avg", "accuracy"),
        formula="M-Avg: unweighted mean of the task accuracies; G-Avg: mean of the two written tasks, 2 to 10",
        **rest,
    )


ALL: tuple[Benchmark, ...] = (
    Benchmark(
        name="videomme",
        title="Video-MME",
        category="general",
        paper_items=2700,
        load=_rows(rows.videomme, Prepared(labels=_same("duration", "domain", "sub_category", "task_type"))),
        metrics=metrics.micro_metrics,
        metric=("accuracy",),
        formula="accuracy over all questions, without subtitles unless the protocol lists them",
        layout=LAYOUTS["videomme"],
        official_counts={"duration": {"short": 900, "medium": 900, "long": 900}},
        published=PUBLISHED["videomme"],
        notes=("files may be .mp4, .MP4 or .mkv",),
    ),
    Benchmark(
        name="videomme_v2",
        title="Video-MME-v2",
        category="general",
        paper_items=3200,
        load=_rows(rows.videomme_v2),
        metrics=metrics.linked_metrics,
        metric=("overall",),
        formula="mean over groups of four linked questions of a score that grows faster than the right answers",
        layout=LAYOUTS["videomme_v2"],
        label_scores=metrics.linked_label_scores,
        notes=("a missing question is a wrong one and breaks its group",),
    ),
    Benchmark(
        name="mvbench",
        title="MVBench",
        category="general",
        paper_items=3586,
        load=_rows(rows.mvbench),
        metrics=metrics.macro_metrics("task", "accuracy"),
        metric=("accuracy",),
        formula="unweighted mean of the task accuracies; over items for prepared rows, which have lost their tasks",
        layout=LAYOUTS["mvbench"],
        official_counts={"task": dict.fromkeys(rows.MVBENCH_TASKS, 200)},
        published=PUBLISHED["mvbench"],
        notes=("`check_ans` takes an empty response for a right one",),
    ),
    Benchmark(
        name="tempcompass",
        title="TempCompass",
        category="general",
        paper_items=7540,
        load=load_tempcompass,
        metrics=metrics.form_metrics("form"),
        metric=("accuracy",),
        formula="accuracy over the questions of the files given; the four forms stand beside it",
        layout=LAYOUTS["tempcompass"],
        official_counts={"form": {"multi-choice": 1580, "yes_no": 2453, "caption_matching": 1503, "captioning": 2004}},
        published=PUBLISHED["tempcompass"],
        notes=("captions need a judge",),
    ),
    Benchmark(
        name="motionbench",
        title="MotionBench",
        category="general",
        paper_items=3715,
        load=_rows(
            rows.motionbench,
            Prepared(labels={"question_type": "original_question_type"}, label_style="{letter}. {text}"),
        ),
        metrics=metrics.micro_metrics,
        metric=("accuracy",),
        formula="accuracy over the questions with a public answer (DEV)",
        layout=LAYOUTS["motionbench"],
        official_counts={
            "question_type": {
                "Motion Recognition": 1478,
                "Motion-related Objects": 690,
                "Location-related Motion": 546,
                "Action Order": 519,
                "Repetition Count": 400,
                "Camera Motion": 385,
            }
        },
        notes=("Table 2 says 3,715 items, the prepared file has 4,018",),
    ),
    Benchmark(
        name="lvbench",
        title="LVBench",
        category="long",
        paper_items=1492,
        load=_rows(rows.lvbench, Prepared(label_style="({letter}) {text}")),
        metrics=metrics.micro_metrics,
        metric=("accuracy",),
        formula="accuracy over all questions; a question counts in each capability that it lists",
        layout=LAYOUTS["lvbench"],
        official_counts={"": {"all videos": 1549, "prepared": 1492}},
        published=PUBLISHED["lvbench"],
        notes=(
            "videos disappear from YouTube: state how many are there",
            "readers report wrong gold answers (LVBench#16, videos RCAqKnvu_P0 and HfEVEGf1A8Q); they are kept",
        ),
    ),
    Benchmark(
        name="longvideobench",
        title="LongVideoBench",
        category="long",
        paper_items=1337,
        load=_rows(rows.longvideobench),
        metrics=metrics.micro_metrics,
        metric=("accuracy",),
        formula="accuracy over all questions, without subtitles unless the protocol shows them",
        layout=LAYOUTS["longvideobench"],
        official_counts={"": {"val": 1337}},
        published=PUBLISHED["longvideobench"],
        notes=("many questions quote subtitles",),
    ),
    _mlvu(
        "mlvu_dev",
        "MLVU (dev)",
        2174,
        _rows(mlvu_dev),
        layout=LAYOUTS["mlvu_dev"],
        official_counts={
            "task": {
                "plotQA": 539,
                "needle": 355,
                "ego": 352,
                "count": 206,
                "order": 259,
                "anomaly_reco": 200,
                "topic_reasoning": 264,
                "sub_scene": 201,
                "summary": 217,
            }
        },
        published=PUBLISHED["mlvu_dev"],
        notes=(
            "two needle answers are no candidate, so M-Avg tops at 99.92",
            "one row of topic_reasoning is empty, 16 rows repeat a candidate",
        ),
    ),
    _mlvu(
        "mlvu_test",
        "MLVU (test)",
        502,
        load_mlvu_test,
        layout=LAYOUTS["mlvu_test"],
        official_counts={"": {"test": 502}},
        published=PUBLISHED["mlvu_test"],
        notes=("six options; dev and test are not comparable",),
    ),
    Benchmark(
        name="video_holmes",
        title="Video-Holmes",
        category="reasoning",
        paper_items=1837,
        load=_rows(rows.video_holmes),
        metrics=metrics.micro_metrics,
        metric=("accuracy",),
        formula="accuracy over all questions",
        layout=LAYOUTS["video_holmes"],
        official_counts={"": {"test": 1837}},
        published=PUBLISHED["video_holmes"],
        notes=("its training set of 1,551 must not be trained on",),
    ),
    Benchmark(
        name="minerva",
        title="MINERVA",
        category="reasoning",
        paper_items=1431,
        load=_rows(rows.minerva),
        metrics=metrics.micro_metrics,
        metric=("accuracy",),
        formula="accuracy over all questions",
        layout=LAYOUTS["minerva"],
        official_counts={"": {"prepared": 1431}},
    ),
    Benchmark(
        name="vcrbench",
        title="VCR-Bench",
        category="reasoning",
        paper_items=1034,
        load=_rows(vcrbench),
        metrics=metrics.micro_metrics,
        metric=("accuracy",),
        formula="accuracy over the questions that are scored; open ones need a judge",
        layout=LAYOUTS["vcrbench"],
        official_counts={"kind": {"multiple choice": 510, "open": 524}},
    ),
    Benchmark(
        name="videoreasonbench",
        title="VideoReasonBench",
        category="reasoning",
        paper_items=1440,
        load=load_videoreasonbench,
        metrics=metrics.form_metrics("level"),
        metric=("accuracy",),
        formula="accuracy over the questions that are scored; plans are played, other answers need a judge",
        layout=LAYOUTS["videoreasonbench"],
        official_counts={
            "dim": {
                "order_operation": 240,
                "counting_operation": 240,
                "order_state": 160,
                "counting_state": 80,
                "comparison_state": 240,
                "prediction_state": 240,
                "prediction_operation": 240,
            }
        },
        notes=("prepared rows have lost the boards, so their 240 plans cannot be played",),
    ),
    Benchmark(
        name="longvideo_reason",
        title="LongVideo-Reason",
        category="reasoning",
        paper_items=851,
        load=_rows(rows.longvideo_reason, Prepared(label_style="{letter}. {text}")),
        metrics=metrics.micro_metrics,
        metric=("accuracy",),
        formula="accuracy over all questions",
        layout=LAYOUTS["longvideo_reason"],
        official_counts={"": {"test": 1000, "prepared": 851}},
        notes=("prepared rows have damaged options: 151 out of order, 23 in fragments",),
    ),
    Benchmark(
        name="mmvu",
        title="MMVU",
        category="STEM",
        paper_items=1000,
        load=_rows(mmvu),
        metrics=metrics.form_metrics("question_type"),
        metric=("accuracy",),
        formula="accuracy over the questions that are scored; open ones need a judge",
        layout=LAYOUTS["mmvu"],
        official_counts={"question_type": {"multiple-choice": 625, "open-ended": 375}},
        published=PUBLISHED["mmvu"],
    ),
    Benchmark(
        name="videommmu",
        title="Video-MMMU",
        category="STEM",
        paper_items=900,
        load=load_videommmu,
        metrics=metrics.track_metrics,
        metric=("overall", "accuracy"),
        formula="mean of the accuracies of the three tracks",
        layout=LAYOUTS["videommmu"],
        official_counts={"track": {"perception": 300, "comprehension": 300, "adaptation": 300}},
        published=PUBLISHED["videommmu"],
        notes=("one list of gold answers lacks a quote and is read leniently", "options up to N"),
    ),
    Benchmark(
        name="videomathqa",
        title="VideoMathQA",
        category="STEM",
        paper_items=2100,
        load=_rows(rows.videomathqa, Prepared(labels=_same("length", "category"), refine=rows.videomathqa_prepared)),
        metrics=metrics.pair_metrics,
        metric=("mcq", "mbin", "accuracy"),
        formula="mcq: accuracy with five options; mbin: share of the questions of which all four pairs are right",
        layout=LAYOUTS["videomathqa"],
        official_counts={"split": {"mcq": 420, "mbin": 1680}},
        published=PUBLISHED["videomathqa"],
    ),
    Benchmark(
        name="vsibench",
        title="VSI-Bench",
        category="spatial",
        paper_items=5130,
        load=_rows(spatial.vsibench, spatial.PREPARED),
        metrics=metrics.spatial_metrics,
        metric=("overall",),
        formula="mean of eight task scores: accuracy or mean relative accuracy; rel_direction is the mean of three",
        layout=LAYOUTS["vsibench"],
        official_counts={
            "question_type": {
                "object_size_estimation": 953,
                "object_abs_distance": 834,
                "object_rel_distance": 710,
                "obj_appearance_order": 618,
                "object_counting": 565,
                "object_rel_direction_easy": 217,
                "object_rel_direction_medium": 378,
                "object_rel_direction_hard": 373,
                "room_size_estimation": 288,
                "route_planning": 194,
            }
        },
        published=PUBLISHED["vsibench"],
    ),
    Benchmark(
        name="charades_sta",
        title="Charades-STA",
        category="temporal",
        paper_items=3720,
        load=load_charades,
        metrics=metrics.span_metrics,
        metric=("miou",),
        formula="mean overlap of the spans; r1@m: share of overlaps of at least m",
        layout=LAYOUTS["charades_sta"],
        official_counts={"": {"test": 3720}},
        published=PUBLISHED["charades_sta"],
    ),
    Benchmark(
        name="stvg",
        title="STVG (ST-Align)",
        category="temporal",
        paper_items=2000,
        load=load_stvg,
        metrics=metrics.tube_metrics,
        metric=("m_tiou",),
        formula="means of the overlaps in time (m_tiou) and of the tubes (m_viou)",
        layout=LAYOUTS["stvg"],
        official_counts={"": {"prepared": 2000}},
        notes=("71 prepared rows have no boxes and count in time only",),
    ),
    Benchmark(
        name="ovobench",
        title="OVO-Bench",
        category="streaming",
        paper_items=3035,
        load=_rows(streaming.ovobench, streaming.OVO_PREPARED),
        metrics=metrics.streaming_metrics,
        metric=("total",),
        formula="mean of the three tracks, each the mean of its tasks; forward tasks are means over probes",
        layout=LAYOUTS["ovobench"],
        official_counts={
            "task": {
                "EPM": 297,
                "HLD": 186,
                "ASI": 148,
                "OJR": 184,
                "STU": 178,
                "OCR": 149,
                "ATR": 116,
                "ACR": 109,
                "FPD": 101,
                "REC": 698,
                "SSR": 629,
                "CRR": 240,
            }
        },
    ),
    Benchmark(
        name="odvbench",
        title="ODV-Bench",
        category="streaming",
        paper_items=7896,
        load=_rows(streaming.odvbench, streaming.ODV_PREPARED),
        metrics=metrics.micro_metrics,
        metric=("accuracy",),
        formula="accuracy over all questions",
        layout=LAYOUTS["odvbench"],
        official_counts={"": {"paper": 7896}},
    ),
    Benchmark(
        name="livesports",
        title="LiveSports-3K QA",
        category="streaming",
        paper_items=1174,
        load=_rows(streaming.livesports, streaming.LIVESPORTS_PREPARED),
        metrics=metrics.micro_metrics,
        metric=("accuracy",),
        formula="accuracy over all questions",
        layout=LAYOUTS["livesports"],
        official_counts={"q_type": {"When": 335, "What": 465, "Who": 374}},
        notes=("the authors compare logits of letters; generated letters give other numbers",),
    ),
)
BENCHMARKS: Mapping[str, Benchmark] = {benchmark.name: benchmark for benchmark in ALL}


def benchmark_of(name: str) -> Benchmark:
    """A benchmark by its name.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in BENCHMARKS:
        raise UsageError(f"'{name}' is no benchmark; known: {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]
