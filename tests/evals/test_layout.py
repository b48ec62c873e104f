"""Downloads unpacked into the layout of a data root, and what of a benchmark lies there."""

import io
import json
import tarfile
import zipfile

import pytest
from support.benchmark_rows import write_files
from support.values import present

from easyvideor1.errors import DataError
from easyvideor1.evals.layout import find
from easyvideor1.evals.table import BENCHMARKS
from easyvideor1.evals.unpack import unpack
from easyvideor1.runs.benchmarks import listed, prepare


@pytest.fixture
def raw(tmp_path):
    """A download of Video-MME: annotations beside zips, one of two videos under another ending."""
    folder = tmp_path / "raw"
    folder.mkdir()
    [path] = write_files("videomme", tmp_path)
    (folder / "videomme.json").write_text(path.read_text())
    with zipfile.ZipFile(folder / "videos_chunked_01.zip", "w") as archive:
        archive.writestr("data/MADE001.MP4", b"one")
    with zipfile.ZipFile(folder / "subtitle.zip", "w") as archive:
        archive.writestr("subtitle/MADE001.srt", "1\n00:00:01,000 --> 00:00:02,000\nhi\n")
    return folder


def test_a_download_becomes_a_layout_that_is_found(raw, tmp_path):
    done = prepare("videomme", raw, tmp_path / "data")
    assert (done["num_items"], done["num_media"], done["missing"]) == (3, 1, ["data/MADE002.mp4"])
    assert done["counts"]["duration"] == {"short": [2, 900], "medium": [0, 900], "long": [1, 900]}
    again = prepare("videomme", raw, tmp_path / "data")
    assert (again["num_files"], again["num_kept"]) == (0, 3)
    found = present(find(BENCHMARKS["videomme"], tmp_path / "data"))
    assert found.media["data/MADE001.mp4"].endswith("data/MADE001.MP4")
    row = next(row for row in listed(tmp_path / "data") if row["name"] == "videomme")
    assert (row["found"]["num_items"], row["found"]["num_missing"]) == (3, 1)


def test_videos_elsewhere_are_found_by_their_name(raw, tmp_path):
    prepare("videomme", raw, tmp_path / "data")
    elsewhere = tmp_path / "data" / "Video-MME" / "chunk_7" / "MADE002.mkv"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(b"two")
    assert not present(find(BENCHMARKS["videomme"], tmp_path / "data")).missing


def tar_of(members):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            if data is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                archive.addfile(info)
            else:
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


def test_a_tar_in_parts_is_read_as_one(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    content = tar_of({"videos/a.mp4": bytes(range(256)) * 99, "videos/b.mp4": b"b"})
    third = len(content) // 3 + 1
    for number, letters in enumerate(("aa", "ab", "ac")):
        (raw / f"videos.tar.gz.part.{letters}").write_bytes(content[number * third : (number + 1) * third])
    done = unpack(raw, tmp_path / "out")
    assert done.num_files == 2
    assert (tmp_path / "out/videos/a.mp4").read_bytes() == bytes(range(256)) * 99
    (raw / "videos.tar.gz.part.ab").unlink()
    with pytest.raises(DataError, match="a part is missing"):
        unpack(raw, tmp_path / "again")


def test_a_zip_in_parts_is_read_as_one(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a.mp4", b"x" * 5000)
    (raw / "videos.zip.001").write_bytes(content.getvalue()[:3000])
    (raw / "videos.zip.002").write_bytes(content.getvalue()[3000:])
    unpack(raw, tmp_path / "out")
    assert (tmp_path / "out/a.mp4").read_bytes() == b"x" * 5000


def test_nothing_is_written_outside_of_the_target(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.tar.gz").write_bytes(tar_of({"../evil.mp4": b"x", "/abs.mp4": b"x", "link.mp4": None, "ok.mp4": b"x"}))
    with zipfile.ZipFile(raw / "b.zip", "w") as archive:
        archive.writestr("../../evil2.mp4", b"x")
        archive.writestr("C:\\evil3.mp4", b"x")
    done = unpack(raw, tmp_path / "out")
    assert sorted(done.refused) == ["../../evil2.mp4", "../evil.mp4", "/abs.mp4", "C:\\evil3.mp4", "link.mp4"]
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == ["ok.mp4"]
    assert not list(tmp_path.rglob("evil*"))


def test_damaged_archives_and_downloads_without_annotations_say_so(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.zip").write_bytes(b"no zip")
    with pytest.raises(DataError, match="damaged archive"):
        unpack(raw, tmp_path / "out")
    (raw / "a.zip").unlink()
    with pytest.raises(DataError, match="no annotations of Video-MME in the download"):
        prepare("videomme", raw, tmp_path / "data")
    with pytest.raises(DataError, match="the folder of the download does not exist"):
        unpack(tmp_path / "gone", tmp_path / "out")


@pytest.mark.parametrize("name", ["mlvu_test", "stvg", "tempcompass", "ovobench", "mvbench"])
def test_folders_of_the_public_downloads_are_recognised(name, tmp_path):
    layout = BENCHMARKS[name].layout
    target = tmp_path / "data" / layout.folder
    sub = {"mvbench": "json", "tempcompass": "questions"}.get(name, "")
    (target / sub).mkdir(parents=True)
    for path in write_files(name, tmp_path):
        (target / sub / path.name).write_text(path.read_text())
    found = present(find(BENCHMARKS[name], tmp_path / "data"))
    assert len(found.loaded.items) == len(BENCHMARKS[name].load(write_files(name, tmp_path)).items)
    assert json.dumps(listed(tmp_path / "data"))


def test_annotations_of_another_shape_are_an_entry_of_the_list_not_its_end(tmp_path):
    (tmp_path / "LVBench").mkdir()
    (tmp_path / "LVBench" / "x.json").write_text("[{}]")
    rows = {row["name"]: row["found"] for row in listed(tmp_path)}
    assert "field 'key': missing" in rows["lvbench"]["error"]
    assert rows["videomme"] is None
