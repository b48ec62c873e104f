"""Annotation files become items: every benchmark, its ids, prompts, clip ranges and known errata."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.benchmark_rows import FILES, write_files

from easyvideor1.data.samples import unique_ids
from easyvideor1.errors import DataError
from easyvideor1.evals.annotations import read_value
from easyvideor1.evals.protocol import FAMILIES, load_protocol, prompt_text
from easyvideor1.evals.readers import READERS
from easyvideor1.evals.table import BENCHMARKS

ABCD = "A. A spade.\nB. A rake.\nC. A hoe.\nD. A fork."
SYSTEM_MVBENCH = (
    "Carefully watch the video and pay attention to the cause and sequence of events, the detail and movement of "
    "objects, and the action and pose of persons. Based on your observations, select the best option that accurately "
    "addresses the question."
)
SYSTEM_MLVU = (
    "Carefully watch this video and pay attention to every detail. Based on your observations, select the best option "
    "that accurately addresses the question."
)


def loaded(name, tmp_path):
    return BENCHMARKS[name].load(write_files(name, tmp_path))


def prompts(name, tmp_path, family="official"):
    protocol = load_protocol(name, family)
    return [prompt_text(item, protocol) for item in loaded(name, tmp_path).items]


def test_all_benchmarks_of_the_report_are_there():
    assert set(FILES) == set(BENCHMARKS)
    assert len(BENCHMARKS) == 23  # 22, MLVU with two splits


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_benchmark_loads_with_unique_ids_and_every_family_asks_for_its_letters(name, tmp_path):
    items = loaded(name, tmp_path).items
    assert len({item.id for item in items}) == len(items)
    for family in FAMILIES:
        protocol = load_protocol(name, family)
        for item in items:
            text = prompt_text(item, protocol).text
            for letter, line in zip(item.fields["options"], item.fields["lines"], strict=True):
                option = item.fields["options"][letter]
                assert line in text or re.search(rf"[('\s]{letter}[).:']:? '?{re.escape(option)}", text), text
            reader = protocol.reader_of(item)
            assert not reader or READERS[reader]("", item) is not None


OFFICIAL = {
    "videomme": (
        "Select the best answer to the following multiple-choice question based on the video. Respond with only the "
        f"letter (A, B, C, or D) of the correct option.\nWhat is leaning on the shed?\n{ABCD}\nThe best answer is:"
    ),
    "videomme_v2": (
        "These are the frames of a video.Question: Question 1?\n"
        + "\n".join(f"{letter}. choice {letter}" for letter in "ABCDEFGH")
        + "\nSelect the best answer to the following multiple-choice question based on the video. Respond with only "
        "the letter (A, B, C, D, E, F, G, or H) of the correct option."
    ),
    "mvbench": "Question: What is done first?\nOptions:\n(A) Sat.\n(B) Ran.\nOnly give the best option.",
    "tempcompass": "What does she do?\nA. knits\nB. sews\nC. weaves\nPlease directly give the best option:",
    "motionbench": "How does it move?\nA. Left\nB. Right\nAnswer with only the option letter (A, B, C, D, E, or F).",
    "lvbench": "Who sings?\n(A) A monk\n(B) A nun\n(C) A boy\n(D) A girl\nAnswer the question with the option letter",
    "longvideobench": (
        "Question: What falls?\nA. A cup\nB. A hat\nC. A pen\n"
        "Answer with the option's letter from the given choices directly."
    ),
    "mlvu_dev": "Question: What is done first?\nOptions:\n(A) Red\n(B) Blue\nOnly give the best option.",
    "video_holmes": (
        "Based on the given video, reason and answer the single-choice question. Provide your reasoning between the "
        "<think> and </think> tags, and then give your final answer between the <answer> and </answer> tags. The "
        "question is: Who is it?. The options are: {'A': 'No. A', 'B': 'No. B', 'C': 'No. C', 'D': 'No. D', "
        "'E': 'No. E', 'F': 'No. F'}. Your answer:"
    ),
    "minerva": "Which?\nA. a\nB. b\nC. c\nD. d\nE. e\nAnswer with the option's letter from the given choices directly.",
    "vcrbench": "Which?\nA. x\nB. y",
    "mmvu": (
        "\nQuestion: Which?\nA: x\nB: y\n\nAnswer the given multiple-choice question step by step. Begin by explaining "
        "your reasoning process clearly. Conclude by stating the final answer using the following format: 'Therefore, "
        "the final answer is: $LETTER' (without quotes), where $LETTER is one of the options. Think step by\nstep "
        "before answering."
    ),
    "videommmu": (
        "Which?\n"
        + "\n".join(f"{letter}. {n} bar" for n, letter in enumerate("ABCDEFGHIJK"))
        + "\nPlease ignore the Quiz question in last frame of the video."
    ),
    "videomathqa": (
        "Select the best answer to the following multiple-choice question based on the video. Respond with the letter "
        "(A, B, C, D or E) of the correct option.\nArea?\nA. 0\nB. 1\nC. 2\nD. 3\nE. 4\n\n"
        "Answer with the option's letter (A, B, C, D or E) from the given choices directly."
    ),
    "vsibench": "These are frames of a video.\nChairs?\nPlease answer the question using a single word or phrase.",
    "odvbench": (
        "What is done first?\nA. Stop\nB. Yield\nAnswer with the option's letter from the given choices directly."
    ),
    "livesports": "Who?\nA: x\nB: y\nC: z\nD: w\nPlease select the correct answer.",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OFFICIAL))
def test_official_prompts_are_the_published_ones_byte_for_byte(name, tmp_path):
    assert prompts(name, tmp_path)[0].text == OFFICIAL[name]


def test_system_texts_and_prefixes_belong_to_the_prompt(tmp_path):
    mvbench, mlvu = prompts("mvbench", tmp_path)[0], prompts("mlvu_dev", tmp_path)
    assert (mvbench.system, mvbench.prefix) == (SYSTEM_MVBENCH, "Best option:(")
    assert (mlvu[0].system, mlvu[0].prefix) == (SYSTEM_MLVU, "Best Option: (")
    assert mlvu[-1].system.endswith("answer the given questions.")
    assert (mlvu[-1].text, mlvu[-1].prefix) == ("Describe the mending.", "")
    assert prompts("livesports", tmp_path)[0].prefix == "Answer:"


def test_streaming_prompts_keep_the_blanks_and_misspellings_of_their_authors(tmp_path):
    choice, rec, _, ssr, crr = prompts("ovobench", tmp_path)
    assert choice.text == (
        "\nQuestion: Where?\nOptions:\nA. left; B. right;\n\nRespond only with the letter corresponding to your chosen "
        "option (e.g., A, B, C). \nDo not include any additional text or explanation in your response.\n"
    )
    assert "repetively. \nThe person" in rec.text
    assert "How many times did they hop?\nProvide your answer as a single number (e.g., 0, 1, 2, 3\u2026)" in rec.text
    assert "\npour the tea\nYour task" in ssr.text
    assert "Answer only with \u201cYes\u201d or \u201cNo\u201d.\n" in crr.text
    assert all(
        prompt.text.startswith("\n") and prompt.text.endswith("response.\n") for prompt in (choice, rec, ssr, crr)
    )


def test_the_papers_prompt_lists_the_options_behind_the_question(tmp_path):
    text = prompts("videomme", tmp_path, "paper")[0].text
    assert text.endswith(f"Question: What is leaning on the shed? Possible answer choices:\n{ABCD}\n")
    assert text.startswith("You should watch and learn the video content. Then apply what you learned to select")


def test_clip_ranges_frame_rates_and_prefixes_of_streams_go_to_the_video(tmp_path):
    bounded, frames = loaded("mvbench", tmp_path).items
    assert (bounded.sample.media[0].start_s, bounded.sample.media[0].end_s) == (1.5, 4.0)
    assert (frames.sample.media[0].fps, frames.video) == (3.0, "tvqa/frames_fps3_hq/s_clip")
    stream = [item.sample.media[0] for item in loaded("ovobench", tmp_path).items]
    assert [(media.start_s, media.end_s) for media in stream] == [(0, 22), (0, 8), (0, 15), (0, 15), (0, 9)]
    drive = loaded("odvbench", tmp_path).items[0].sample.media[0]
    assert (drive.start_s, drive.end_s) == (1.0, 7.5)


def test_golds_are_letters_texts_numbers_spans_and_tubes(tmp_path):
    golds = {name: [item.sample.gold for item in loaded(name, tmp_path).items] for name in FILES}
    assert golds["mvbench"] == ["B", "C"]  # of equal candidates the last
    assert golds["mlvu_test"] == ["F"]
    assert golds["longvideobench"] == ["C"]
    assert golds["tempcompass"] == ["B", "no", "B", "A", "B. sews"]
    assert golds["ovobench"] == ["A", "1", "2", "Yes", "No"]
    assert json.loads(golds["charades_sta"][0]) == {"time": [21.7, 28.9]}
    tube, time_only = map(json.loads, golds["stvg"])
    assert tube == {"time": [2.0, 4.0], "boxes": {"2": [100, 50, 220, 250], "3": [110, 52, 230, 252]}}
    assert time_only == {"time": [1.0, 2.0], "boxes": {}}


def test_known_errata_are_counted_and_stop_nothing(tmp_path):
    mlvu = loaded("mlvu_dev", tmp_path)
    assert mlvu.erratum_counts() == {
        "gold answer is no option": 1,
        "repeated candidate, which is the gold answer": 1,
        "empty row": 1,
    }
    assert [item.sample.gold for item in mlvu.items] == ["B", "", "C", "D", "He mends it."]
    assert loaded("videommmu", tmp_path).erratum_counts() == {"broken list of gold answers": 1}
    broken = loaded("videommmu", tmp_path).items[-1]
    assert broken.fields["golds"] == ["9/4", "2.250", "2.25"]
    motion = loaded("motionbench", tmp_path)
    assert (len(motion.items), list(motion.erratum_counts().values())) == (2, [1])
    assert loaded("stvg", tmp_path).erratum_counts() == {"frame rate unknown, taken for 30": 1}


def test_a_question_of_vcr_bench_that_lists_no_options_gets_them(tmp_path):
    assert prompts("vcrbench", tmp_path)[1].text == "Which of them?\nA. x\nB. y"


def test_copies_of_mlvu_with_other_columns_load_too(tmp_path):
    row = {
        "video_name": "n_1.mp4",
        "duration": 9,
        "question": "Which?\n(A) x\n(B) y",
        "answer": "B",
        "task_type": "needle",
    }
    path = tmp_path / "dev.json"
    path.write_text(json.dumps([row]))
    for name in ("mlvu_dev", "mlvu_test"):
        [item] = BENCHMARKS[name].load([path]).items
        assert (item.sample.gold, item.labels["task"], item.fields["options"]) == (
            "B",
            ("needle",),
            {"A": "x", "B": "y"},
        )


def test_yes_or_no_questions_do_not_ask_for_a_letter(tmp_path):
    texts = [prompt.text for prompt in prompts("tempcompass", tmp_path)]
    assert texts[1] == "Is it slow?\nPlease answer yes or no:"
    assert texts[2].endswith("Option 2: She stands up.\nPlease directly give the best option:")


def test_labels_hold_several_values_where_the_authors_list_several(tmp_path):
    assert loaded("lvbench", tmp_path).items[0].labels["question_type"] == ("entity recognition", "reasoning")
    assert loaded("minerva", tmp_path).items[0].labels["skill"] == ("Counting", "Reading")
    assert loaded("mmvu", tmp_path).items[0].labels["discipline"] == ("Humanities and Social Science",)
    assert "discipline" not in loaded("vsibench", tmp_path).items[0].labels


def test_ids_that_repeat_are_numbered_in_file_order(tmp_path):
    assert unique_ids(["q1", "q2", "q1", "q3", "q1"], quiet=True) == ["q1#1", "q2", "q1#2", "q3", "q1#3"]
    assert [item.id for item in loaded("videomathqa", tmp_path).items] == [f"q1#{n}" for n in range(1, 6)]


PREPARED = {"data_type": "video", "problem": "Which?", "path": "./videos/a.mp4", "problem_id": 1}


@pytest.mark.parametrize(
    ("name", "row", "gold", "video"),
    [
        ("lvbench", {"options": ["A. x", "B. y"], "solution": "<answer>B</answer>"}, "B", "videos/a.mp4"),
        (
            "mvbench",
            {"options": ["A. n", "B. e"], "answer": "e", "solution": "<answer>B</answer>"},
            "B",
            "videos/a.mp4",
        ),
        ("livesports", {"options": ["A: x", "B: y"], "solution": "<answer>A</answer>"}, "A", "videos/a.mp4"),
        ("longvideo_reason", {"options": ["B. y", "A. x"], "solution": "<answer>A</answer>"}, "A", "videos/a.mp4"),
    ],
)
def test_prepared_rows_of_choices_load(name, row, gold, video, tmp_path):
    path = tmp_path / "prepared.json"
    path.write_text(json.dumps([PREPARED | {"problem_type": "multiple choice"} | row]))
    [item] = BENCHMARKS[name].load([path]).items
    assert (item.sample.gold, item.video) == (gold, video)
    assert list(item.fields["options"]) == ["A", "B"]
    for family in FAMILIES:
        text = prompt_text(item, load_protocol(name, family)).text
        assert all(f"{letter}" in text and option in text for letter, option in item.fields["options"].items())


def test_prepared_rows_of_other_kinds_load(tmp_path):
    def item(name, **fields):
        path = tmp_path / "prepared.json"
        path.write_text(json.dumps([PREPARED | {"options": []} | fields]))
        return BENCHMARKS[name].load([path]).items[0]

    charades = item(
        "charades_sta",
        problem_type="temporal grounding",
        solution='<think>{"time": [24.3, 30.4], "boxes": {}}</think><[PLACEHOLDER_TOKEN]>',
    )
    assert (charades.form, json.loads(charades.sample.gold)["time"]) == ("span", [24.3, 30.4])
    rec = item("ovobench", problem_type="REC", problem="How many times did they hop?", solution="<answer>2</answer>",
               ovo_task="REC", ovo_category="forward", ovo_id=7)  # fmt: skip
    assert (rec.form, rec.fields["activity"], rec.labels["category"], rec.group) == ("REC", "hop", ("forward",), "7")
    tube = item(
        "stvg", problem_type="spatial-temporal grounding", solution='<answer>{"time": [2, 4], "boxes": {}}</answer>'
    )
    assert (tube.form, tube.sample.problem_type) == ("tube", "temporal grounding")
    size = item("vsibench", problem_type="regression", solution="<answer>4.5</answer>", options=None)
    assert (size.form, size.sample.gold) == ("number", "4.5")
    image = item("videommmu", problem_type="numerical", solution="<answer>8.31</answer>", image_path="./images/a.png",
                 problem="How many? <image 1>", options=None)  # fmt: skip
    assert [media.kind for media in image.sample.media] == ["video", "image"]


def test_damaged_options_of_prepared_rows_are_noted(tmp_path):
    path = tmp_path / "prepared.json"
    row = {"problem_type": "multiple choice", "options": ["A. a cut", "A. a cut off", "B. y"], "solution": "B"}
    path.write_text(json.dumps([PREPARED | row]))
    found = BENCHMARKS["longvideo_reason"].load([path])
    assert list(found.erratum_counts()) == ["damaged options: letters out of order or repeated"]
    assert (found.items[0].sample.gold, found.items[0].fields["options"]["B"]) == ("B", "y")
    text = prompt_text(found.items[0], load_protocol("longvideo_reason")).text
    assert all(option in text for option in ("a cut off", "y"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "no rows"),
        ('[{"question": "x"}]', "field 'options': missing"),
        ("{broken", "broken JSON"),
        ("[3]", "a row is an object, got int"),
        ('[{"question_id": "1", "question": "x", "options": 3, "answer": "A", "videoID": "v"}]', "field 'options'"),
    ],
)
def test_a_file_that_is_not_of_the_benchmark_says_so(content, message, tmp_path):
    path = tmp_path / "videomme.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        BENCHMARKS["videomme"].load([path])
    with pytest.raises(DataError, match="cannot read the annotations"):
        BENCHMARKS["videomme"].load([tmp_path / "gone.json"])


def test_parquet_holds_the_same_items_as_json(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    [path] = write_files("videomme", tmp_path)
    table = pyarrow.Table.from_pylist(json.loads(path.read_text()))
    parquet.write_table(table, tmp_path / "a.parquet")
    first, second = (BENCHMARKS["videomme"].load([file]).items for file in (path, tmp_path / "a.parquet"))
    assert [(item.id, item.sample.options, item.labels) for item in first] == [
        (item.id, item.sample.options, item.labels) for item in second
    ]


def as_parquet(rows: list[dict[str, Any]], path: Path) -> Path:
    """Rows of several kinds in one table: what only others have is null."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names = dict.fromkeys(name for row in rows for name in row)
    pq.write_table(pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows]), path)
    return path


def as_table(rows: list[dict[str, Any]], path: Path) -> Path:
    """The same as text: lists as Python shows them, nothing as an empty cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)), delimiter="\t")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: "" if value is None else value for name, value in row.items()})
    return path


@pytest.mark.parametrize("name", ["videomme", "mvbench", "vcrbench", "ovobench", "mmvu"])
def test_tables_and_parquet_files_hold_the_same_items(name: str, tmp_path: Path) -> None:
    benchmark, files = BENCHMARKS[name], write_files(name, tmp_path)
    expected = benchmark.load(files).items
    for ending, write in ((".parquet", as_parquet), (".tsv", as_table)):
        copies = []
        for path in files:
            rows = read_value(path)
            copies.append(write(list(rows.values()) if isinstance(rows, dict) else rows, path.with_suffix(ending)))
        found = benchmark.load(copies).items
        assert [(item.id, item.form, item.fields, item.labels, item.sample.gold) for item in found] == [
            (item.id, item.form, item.fields, item.labels, item.sample.gold) for item in expected
        ]


def test_a_row_without_a_column_is_named(tmp_path: Path) -> None:
    rows = read_value(write_files("videomme", tmp_path)[0])
    path = tmp_path / "without.json"
    path.write_text(json.dumps([{name: value for name, value in row.items() if name != "question"} for row in rows]))
    with pytest.raises(DataError, match=r"without.json\[0\]: not a row of this benchmark: it has no 'question'"):
        BENCHMARKS["videomme"].load([path])
