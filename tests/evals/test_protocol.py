"""Protocols are data: shipped for every benchmark and family, hashed, and changed by files of the user."""

import pytest
from support.benchmark_rows import write_files

from easyvideor1.errors import UsageError
from easyvideor1.evals.protocol import FAMILIES, PROTOCOLS, load_protocol, prompt_text
from easyvideor1.evals.table import BENCHMARKS


def test_every_benchmark_has_every_family_and_hashes_tell_them_apart():
    hashes = {load_protocol(name, family).hash for name in BENCHMARKS for family in FAMILIES}
    assert len(hashes) == len(BENCHMARKS) * len(FAMILIES)
    assert {path.stem for path in PROTOCOLS.glob("*.yaml")} == {*BENCHMARKS, "families"}


def test_every_protocol_says_where_it_comes_from_and_reads_conclusions():
    for name in BENCHMARKS:
        for family in FAMILIES:
            protocol = load_protocol(name, family)
            assert len(protocol.source) > 20, (name, family)
            assert protocol.reading == "conclusion"
            assert protocol.decoding.is_greedy


def own(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return str(path)


def test_a_file_of_ones_own_changes_a_family(tmp_path):
    path = own(tmp_path, "like: fast\nvideo: {max_frames: 8}\nprompts: {choice: 'Q: {{ stem }}'}\n")
    protocol = load_protocol("videomme", path)
    fast = load_protocol("videomme", "fast")
    assert (protocol.family, protocol.video.max_frames, protocol.video.fps) == ("mine", 8, fast.video.fps)
    item = BENCHMARKS["videomme"].load(write_files("videomme", tmp_path)).items[0]
    assert prompt_text(item, protocol).text == "Q: What is leaning on the shed?"
    assert protocol.hash != fast.hash


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vido: {fps: 1}", "unknown key 'vido'; did you mean 'video'"),
        ("video: {fpss: 1}", "protocol mine of videomme, video: unknown key 'fpss'"),
        ("readers: {choice: first leter}", "there is no reader 'first leter'"),
        ("reading: somewhere", "reading must be one of"),
        ("like: nobody", "'nobody' is no family"),
        ("[1, 2]", "a protocol is a mapping"),
        ("a: [", "cannot be read as a protocol"),
    ],
)
def test_a_wrong_protocol_names_the_key(text, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        load_protocol("videomme", own(tmp_path, text))


def test_an_unknown_family_lists_the_known_ones():
    with pytest.raises(UsageError, match="'offical' is no protocol; name one of official, paper"):
        load_protocol("videomme", "offical")


def test_a_template_that_names_what_an_item_lacks_says_where(tmp_path):
    protocol = load_protocol("videomme", own(tmp_path, "prompts: {choice: '{{ qestion }}'}"))
    item = BENCHMARKS["videomme"].load(write_files("videomme", tmp_path)).items[0]
    with pytest.raises(UsageError, match="protocol mine of videomme, form 'choice': 'qestion' is undefined"):
        prompt_text(item, protocol)


def test_a_template_runs_in_a_sandbox(tmp_path):
    protocol = load_protocol("videomme", own(tmp_path, "prompts: {choice: '{{ question.__class__.__mro__ }}'}"))
    item = BENCHMARKS["videomme"].load(write_files("videomme", tmp_path)).items[0]
    with pytest.raises(UsageError, match="unsafe"):
        prompt_text(item, protocol)
