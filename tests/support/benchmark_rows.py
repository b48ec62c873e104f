"""Made-up annotation rows in the authors' own schemas, a file or more per benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CHOICES = ["A spade.", "A rake.", "A hoe.", "A fork."]
LETTERED = [f"{letter}. {text}" for letter, text in zip("ABCD", CHOICES, strict=True)]


def videomme(number: str, question: int, duration: str, answer: str) -> dict[str, Any]:
    return {
        "video_id": number, "duration": duration, "domain": "Life Record", "sub_category": "Travel",
        "url": "u", "videoID": f"MADE{number}", "question_id": f"{number}-{question}", "task_type": "Counting Problem",
        "question": "What is leaning on the shed?", "options": LETTERED, "answer": answer,
    }  # fmt: skip


def linked(video: str, group_type: str, structure: str, answers: str) -> list[dict[str, Any]]:
    options = "\n".join(f"{letter}. choice {letter}" for letter in "ABCDEFGH")
    return [
        {
            "video_id": video, "group_type": group_type, "group_structure": structure, "question_id": f"{video}-{n}",
            "question": f"Question {n}?", "options": options, "answer": answer, "level": 1 + n // 3,
            "second_head": "Frame Only", "third_head": "Counting",
        }
        for n, answer in enumerate(answers, start=1)
    ]  # fmt: skip


def candidates(video: str, texts: list[str], answer: str, **more: Any) -> dict[str, Any]:
    return {"video": video, "question": "What is done first?", "candidates": texts, "answer": answer, **more}


MOTION = [
    {"key": "m1", "video_path": "m1.mp4", "question_type": "Camera Motion", "video_type": "self-collected",
     "qa": [{"uid": "m1", "question": "How does it move?\nA. Left\nB. Right", "answer": "B"}]},
    {"key": "m2", "video_path": "m2_3_9.mp4", "question_type": "Action Order", "video_type": "public-dataset",
     "qa": [{"uid": "m2_1", "question": "Which order?\nA. Sit, stand\nB. Stand, sit", "answer": "A"},
            {"uid": "m2_2", "question": "How often?\nA. 1\nB. 2", "answer": "NA"}]},
]  # fmt: skip
LVBENCH = [
    {"key": "k1", "type": "live", "qa": [
        {"uid": "7", "question": "Who sings?\n(A) A monk\n(B) A nun\n(C) A boy\n(D) A girl", "answer": "C",
         "question_type": ["entity recognition", "reasoning"]}]},
]  # fmt: skip
LVB = [
    {"video_id": "v", "question": "What falls?", "candidates": ["A cup", "A hat", "A pen"], "correct_choice": 2,
     "question_category": "S2E", "level": "L1-Perception", "topic_category": "KH", "id": "v_0", "video_path": "v.mp4",
     "subtitle_path": "v_en.json", "duration_group": 60, "starting_timestamp_for_subtitles": 1.5, "duration": 50.0},
]  # fmt: skip
TEMPCOMPASS = {
    "multi-choice": {"9": {"action": [
        {"question": "What does she do?\nA. knits\nB. sews\nC. weaves", "answer": "B. sews"}]}},
    "yes_no": {"9": {"speed": [{"question": "Is it slow?", "answer": "no"}]}},
    "caption_matching": {"9": {
        "order": [{"question": "Which fits?\nOption 1: She sits down.\nOption 2: She stands up.",
                   "answer": "Option 2: She stands up."}],
        "action": [{"question": "Which fits?\nCaption A: She knits.\nCaption B: She sews.",
                    "answer": "Caption A: She knits."}]}},
    "captioning": {"9": {"action": [
        {"question": "Write.\nInformation A: {'a': 'knits'}\nInformation B: {'a': 'sews'}\nGenerated Caption:",
         "answer": "B. sews"}]}},
}  # fmt: skip
MLVU = {
    "1_plotQA": [candidates("m.mp4", ["Red", "Blue"], "Blue", question_type="plotQA", duration=9)],
    "2_needle": [candidates("n.mp4", ["Red", "Blue"], "Bluish", question_type="findNeedle", duration=9)],
    "7_topic_reasoning": [
        candidates("t.mp4", ["Barn", "Mill", "Barn"], "Barn", question_type="topic_reasoning", duration=9),
        {"video": "e.mp4", "question": "", "candidates": ["", "", "", ""], "answer": "", "duration": 1,
         "question_type": "topic_reasoning"},
    ],
    "8_sub_scene": [{"video": "s.mp4", "question": "Describe the mending.", "answer": "He mends it.", "duration": 9,
                     "question_type": "subPlot", "scoring_points": ["mends"]}],
}  # fmt: skip
OVO = [
    {"id": 1, "task": "EPM", "video": "a.mp4", "realtime": 21.2, "question": "Where?", "answer": "left",
     "options": ["left", "right"], "gt": 0},
    {"id": 2, "task": "REC", "video": "b.mp4", "activity": "hop", "test_info": [
        {"realtime": 8, "count": 1}, {"realtime": 14.5, "count": 2}]},
    {"id": 3, "task": "SSR", "video": "c.mp4", "test_info": [{"realtime": 15, "step": "pour the tea", "type": 1}]},
    {"id": 4, "task": "CRR", "video": "d.mp4", "question": "Who?", "test_info": [{"realtime": 9, "type": 0}]},
]  # fmt: skip
SLIDE = {
    "slide_end": {
        "video": "videos/hrd/x.mp4", "answer": None, "dim": "prediction_operation", "visible_time": "end",
        "question": "The board is as at the start. Which moves lead to `(a,1): 4, (a,2): 5, (b,1): 0, (b,2): 6`?\n"
        "Provide a summary of the final answer after 'Final Answer:'",
        "states": [[[6, 0], [4, 5]], [[0, 6], [4, 5]]], "moves": ["right"],
    },
    "count_end": {"video": "videos/hrd/x.mp4", "question": "How many?", "answer": "3 moves",
                  "dim": "counting_operation"},
}  # fmt: skip
FILES: dict[str, dict[str, Any]] = {
    "videomme": {"videomme.json": [videomme("001", 1, "short", "A"), videomme("001", 2, "short", "C"),
                                   videomme("002", 1, "long", "D")]},
    "videomme_v2": {"test.json": [*linked("001", "relevance", "None", "ABCD"),
                                  *linked("002", "logic", "[1, [2, 3], 4]", "HGFE")]},
    "mvbench": {
        "action_sequence.json": [candidates("c.mp4", ["Sat.", "Ran."], "Ran.", start=1.5, end=4.0)],
        "episodic_reasoning.json": [candidates("s_clip", ["Late", "Ill", "Ill"], "Ill", start=0, end=2)],
    },
    "tempcompass": {f"{form}.json": rows for form, rows in TEMPCOMPASS.items()}
    | {"meta_info.json": {"9": {"eval_dim": {"action": {"type": "fine-grained action"}, "order": None}}}},
    "motionbench": {"video_info.meta.jsonl": MOTION},
    "lvbench": {"video_info.meta.jsonl": LVBENCH},
    "longvideobench": {"lvb_val.json": LVB},
    "mlvu_dev": {f"{name}.json": rows for name, rows in MLVU.items()},
    "mlvu_test": {
        "question.json": [candidates("t.mp4", list("uvwxyz"), "", question_type="order", question_id="O_0")],
        "ground_truth.json": [{"question_id": "O_0", "question_type": "order", "answer": "F"}],
    },
    "video_holmes": {"test.json": [
        {"video ID": "h", "Question ID": 5, "Question Type": "SR", "Question": "Who is it?",
         "Options": {letter: f"No. {letter}" for letter in "ABCDEF"}, "Answer": "F", "Explanation": "-"}]},
    "minerva": {"minerva.json": [
        {"key": "x:1", "video_id": "x", "question": "Which?", "answer": "b", "answer_id": 1, "split": "Sports",
         "question_type": "Counting, Reading", "category": "Golf",
         **{f"answer_choice_{n}": text for n, text in enumerate("abcde")}}]},
    "vcrbench": {"meta.json": [
        {"id": 0, "video_path": "video/a.mp4", "duration": 45, "dimension": "D1", "question": "Which?\nA. x\nB. y",
         "multiple-choice": True, "choices": {"A": "x", "B": "y", "C": ""}, "answer": "B", "reasoning": []},
        {"id": 1, "video_path": "video/b.mp4", "duration": 400, "dimension": "D2", "question": "Which of them?",
         "multiple-choice": True, "choices": {"A": "x", "B": "y"}, "answer": "A", "reasoning": []},
        {"id": 2, "video_path": "video/c.mp4", "duration": 70, "dimension": "D2", "question": "When?",
         "multiple-choice": False, "choices": {"A": "", "B": ""}, "answer": "[17, 46]", "reasoning": []}]},
    "videoreasonbench": {"hrd.json": SLIDE},
    "longvideo_reason": {"test.json": [
        {"videos": "v/a.webm", "problem": "Why?\n\nA. One\nB. Two\nC. Three\nD. Four", "answer": "D"}]},
    "mmvu": {"validation.json": [
        {"id": "validation_0", "video": "https://host/main/videos/Art/1.mp4", "question_type": "multiple-choice",
         "question": "Which?", "choices": {"A": "x", "B": "y", "C": "", "D": "", "E": ""}, "answer": "B"},
        {"id": "validation_1", "video": "https://host/resolve/main/videos/Law/2.mp4", "question_type": "open-ended",
         "question": "Which antibody?", "choices": dict.fromkeys("ABCDE", ""), "answer": "E"}]},
    "videommmu": {
        "perception.json": [{"id": "dev_Biology_1", "question": "Which?", "answer": "K", "question_type": "perception",
                             "options": [f"{n} bar" for n in range(11)]}],
        "comprehension.json": [{"id": "dev_Biology_1", "question": "Which?", "answer": "A", "options": ["1", "2"]}],
        "adaptation.json": {"Adaptation": {
            "0": {"id": "validation_Math_1", "question": "<image 1> Ratio?", "options": [], "question_type": "open",
                  "answer": "['5/8', '0.625', '0.63']"},
            "1": {"id": "validation_Math_2", "question": "<image 1> Slope?", "options": [], "question_type": "open",
                  "answer": "['9/4', '2.250', '2.25]"}}},
    },
    "videomathqa": {
        "mcq.json": [{"question_id": "q1", "videoID": "v1", "question": "Area?", "category": "Geometry",
                      "length": "short", "options": [f"{letter}. {n}" for n, letter in enumerate("ABCDE")],
                      "answer": "E", "steps": "{}"}],
        "multi_binary.json": [
            {"question_id": "q1", "videoID": "v1", "question": "Area?", "category": "Geometry", "length": "short",
             "options": ["A. 4", f"B. {n}"], "answer": "A", "mbinary_id": n} for n in range(4)],
    },
    "vsibench": {"test.jsonl": [
        {"id": 0, "dataset": "scannet", "scene_name": "s1", "question_type": "object_counting", "question": "Chairs?",
         "ground_truth": "4", "options": None},
        {"id": 1, "dataset": "scannet", "scene_name": "s1", "question_type": "object_rel_direction_easy",
         "question": "Is it to the left or the right?", "ground_truth": "B", "options": ["A. left", "B. right"]},
        {"id": 2, "dataset": "scannetpp", "scene_name": "s2", "question_type": "object_rel_direction_hard",
         "question": "Front or back?", "ground_truth": "A", "options": ["A. front", "B. back"]}]},
    "charades_sta": {"test.txt": "C1 21.7 28.9##person turn a lamp on.\nC2 0.0 5.2##person sneezes.\n"},
    "stvg": {
        "stvg.json": [
            {"video_path": "p/77.mp4",
             "meta": {"width": 640, "height": 360, "split": [0, 99], "time_token": {"<s>": 50, "<e>": 100},
                      "spatial_token": {"<bboxes>": {"50": [100, 50, 120, 200], "75": [110, 52, 120, 200]}}},
             "conversations": [{"from": "human", "value": "<video>\nWhen is the child there?"}]},
            {"video_path": "p/78.mp4",
             "meta": {"width": 640, "height": 360, "split": [0, 99], "time_token": {"<s>": 30, "<e>": 60},
                      "spatial_token": {"<bboxes>": {}}},
             "conversations": [{"from": "human", "value": "When?"}]}],
        "vidstg_annotations.json": [{"vid": "77", "fps": 25.0, "width": 640, "height": 360}],
    },
    "ovobench": {"ovo_bench_new.json": OVO},
    "odvbench": {"targeting_single_static_objects.json": [
        candidates("d/1.mp4", ["Stop", "Yield"], "Yield", start=1.0, end=7.5, task="Static", subtask="Sign")]},
    "livesports": {"LiveSports-3K-QA.jsonl": [
        {"video_id": "a_b", "question_id": "a_b_e1_q1", "video": "videos/a_b.mp4", "video_start": 3.5, "video_end": 9.0,
         "q_type": "Who", "OCR": 1, "question": "Who?", "options": ["A: x", "B: y", "C: z", "D: w"], "answer": "C"}]},
}  # fmt: skip


def write_files(name: str, folder: Path) -> list[Path]:
    """Write the annotation files of a benchmark into a folder of its own."""
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for file, content in FILES[name].items():
        path = folder / file
        if isinstance(content, str):
            path.write_text(content)
        elif file.endswith(".jsonl"):
            path.write_text("".join(json.dumps(row) + "\n" for row in content))
        else:
            path.write_text(json.dumps(content))
        paths.append(path)
    return paths


def write_responses(answers: dict[str, Any], path: Path) -> Path:
    """Write id -> response as JSON Lines."""
    path.write_text("".join(json.dumps({"id": name, "response": text}) + "\n" for name, text in answers.items()))
    return path
