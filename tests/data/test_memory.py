"""What a check found is remembered by content: a second one reads only what is new."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from easyvideor1.config_data import SourceConfig
from easyvideor1.data import memory as memory_module
from easyvideor1.data.check import MANY_ROWS, CheckedData, Steps, Workers, check_sources
from easyvideor1.data.length_check import LengthCheck, LengthLimit
from easyvideor1.data.media_check import MediumFacts, Seen
from easyvideor1.data.memory import Memory
from easyvideor1.data.row_check import CheckRows
from easyvideor1.errors import MediaError
from easyvideor1.types import Media, Sample

WriteRows = Callable[..., Path]


@dataclass
class Counted:
    """Looks at media and gold answers, and counts how often."""

    golds: int = 0
    media: int = 0
    lengths: list[str] = field(default_factory=list)

    def gold(self, sample: Sample) -> None:
        self.golds += 1

    def look(self, media: Media) -> Seen:
        self.media += 1
        assert isinstance(media.path, str)
        if not Path(media.path).exists():
            raise MediaError("gone")
        size = Path(media.path).stat().st_size
        return Seen(
            facts=MediumFacts(
                key=media.path,
                content=str(size),
                num_tokens=size,
                patch_digits=(),
                duration_s=0.0,
                source_fps=0.0,
                width=64,
                height=64,
            )
        )

    def recall(self, facts: MediumFacts) -> Seen:
        return Seen(facts=facts)

    def __call__(self, media: Media) -> Seen:
        return self.look(media)

    def check(self, data: Path, memory: Memory) -> CheckedData:
        return check_sources(
            [SourceConfig(path=str(data))],
            Steps(
                rows=CheckRows(check_gold=self.gold, thinking=False, templates=None),
                look=self,
                lengths=LengthCheck(limit=LengthLimit(tokens=50)),
            ),
            workers=Workers(processes=1, deadline_s=60, look_here=self.look),
            memory=memory,
        )


def rows(count: int = MANY_ROWS, **of_the_last: Any) -> list[dict[str, Any]]:
    made = [{"id": n, "problem": f"{n}?", "problem_type": "numerical", "answer": str(n)} for n in range(count)]
    made[0]["images"] = "a.png"
    made[-1] |= of_the_last
    return made


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "checked", "settings")


@pytest.fixture
def data(tmp_path: Path, write_rows: WriteRows) -> Path:
    (tmp_path / "a.png").write_bytes(b"x" * 10)
    return write_rows(rows())


def costs(data: Path, memory: Memory) -> tuple[int, int]:
    """Gold answers read and media looked at by a check."""
    counted = Counted()
    counted.check(data, memory)
    return counted.golds, counted.media


def test_a_second_check_reads_no_row_and_looks_at_no_medium(data: Path, memory: Memory) -> None:
    assert costs(data, memory) == (MANY_ROWS, 1)
    assert costs(data, memory) == (0, 0)


def test_what_is_remembered_is_what_was_found(tmp_path: Path, memory: Memory, write_rows: WriteRows) -> None:
    (tmp_path / "a.png").write_bytes(b"x" * 10)
    (tmp_path / "long.png").write_bytes(b"x" * 60)
    made = rows(problem=" ", id="empty")
    made[5] |= {"images": ["long.png"], "data_type": "vidoe", "system": "Look.", "foo": 1}
    made[6] |= {"images": ["gone.png"]}
    made[7] |= {"offline_output": "<answer>7</answer>"}
    data = write_rows(made)
    first, second = Counted().check(data, memory), Counted().check(data, memory)
    assert list(map(str, first.errors())) == list(map(str, second.errors()))
    assert len(list(first.errors())) == 3
    assert first.files[0].columns == second.files[0].columns
    assert first.files[0].lengths == second.files[0].lengths
    assert [sample.id for sample in first.samples()] == [sample.id for sample in second.samples()]


def test_only_rows_that_changed_are_read_again(data: Path, memory: Memory, write_rows: WriteRows) -> None:
    costs(data, memory)
    changed = [*rows(MANY_ROWS + 2)[::-1]]
    changed[0]["answer"] = "8"
    assert costs(write_rows(changed), memory) == (2, 0)


@pytest.mark.parametrize("content", [b"y" * 11, b"y" * 10])
def test_a_medium_that_was_changed_is_looked_at_again(content: bytes, data: Path, memory: Memory) -> None:
    costs(data, memory)
    data.with_name("a.png").write_bytes(content)
    assert costs(data, memory) == (0, 1)
    assert costs(data, memory) == (0, 0)


@pytest.mark.parametrize(
    "damage", [lambda body: body[:-3], lambda body: body.replace(b"numerical", b"numerIcal"), lambda body: b""]
)
def test_a_damaged_memory_is_none(damage: Callable[[bytes], bytes], data: Path, memory: Memory, tmp_path: Path) -> None:
    costs(data, memory)
    (kept,) = (tmp_path / "checked").iterdir()
    kept.write_bytes(damage(kept.read_bytes()))
    assert costs(data, memory) == (MANY_ROWS, 1)


def test_other_settings_and_another_file_share_no_memory(data: Path, memory: Memory, tmp_path: Path) -> None:
    costs(data, memory)
    assert costs(data, Memory(tmp_path / "checked", "others")) == (MANY_ROWS, 1)
    copy = tmp_path / "copy.jsonl"
    shutil.copy(data, copy)
    assert costs(copy, memory) == (MANY_ROWS, 1)


def test_few_rows_and_a_folder_that_cannot_be_made_cost_no_error(tmp_path: Path, write_rows: WriteRows) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    few = write_rows(rows(3))
    assert costs(few, Memory(tmp_path / "checked", "")) == (3, 1)
    assert not (tmp_path / "checked").exists()
    (tmp_path / "file").write_text("")
    many = write_rows(rows())
    assert costs(many, Memory(tmp_path / "file" / "checked", "")) == (MANY_ROWS, 1)


def test_the_oldest_files_are_forgotten(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "KEPT_FILES", 2)
    for number in range(4):
        costs(data, Memory(tmp_path / "checked", str(number)))
    assert len(list((tmp_path / "checked").iterdir())) == 2


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose code decides."""
    folder = tmp_path / "package"
    for name in memory_module.DECIDING:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.suffix:
            place.write_text("1")
        else:
            (place / "__pycache__").mkdir(parents=True)
            (place / "code.py").write_text("1")
    monkeypatch.setattr(memory_module, "PACKAGE", folder)
    return folder


def digests_around(change: Callable[[], object]) -> Sequence[str]:
    """Of the settings, before and after a change of the code."""
    found = []
    for step in (lambda: None, change):
        step()
        memory_module._code.cache_clear()
        found.append(memory_module.settings_digest({}, []))
    memory_module._code.cache_clear()
    return found


def test_code_decides_but_not_what_its_use_leaves_beside_it(package: Path) -> None:
    compiled = package / "video" / "__pycache__" / "resize.py311.nbi"
    before, after = digests_around(lambda: compiled.write_bytes(b"machine code"))
    assert before == after
    before, after = digests_around(lambda: (package / "data" / "code.py").write_text("2"))
    assert before != after


def test_the_file_of_a_template_decides(tmp_path: Path) -> None:
    template = tmp_path / "math.jinja"
    template.write_text("a")
    before = memory_module.settings_digest({}, [template])
    template.write_text("b")
    assert memory_module.settings_digest({}, [template]) != before
