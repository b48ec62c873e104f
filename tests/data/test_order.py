"""Shares of files and modalities, and the order that keeps them."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from easyvideor1.config_data import DataConfig
from easyvideor1.config_tree import build
from easyvideor1.data.order import MIN_ROUND, Stratum, apportion, order, strata
from easyvideor1.errors import UsageError
from easyvideor1.types import Media, Sample

MEDIA = {
    "text": (),
    "image": (Media(kind="image", path="x"),),
    "video": (Media(kind="video", path="x"),),
}


def made_samples(**counts):
    """`a_video=3` is three video samples of file a."""
    samples = []
    for name, count in counts.items():
        file, modality = name.split("_")
        media = MEDIA[modality]
        samples += [
            Sample(id=f"{name}{i}", problem_type="numerical", problem="?", gold="3", media=media, source=file)
            for i in range(count)
        ]
    return samples


def made_config(files, **options):
    """`files` maps a file to its weight."""
    train = [{"path": f"d/{name}.jsonl", "weight": weight} for name, weight in files.items()]
    return build(DataConfig, {"train": train, **options}, where="test")


def taken(parts, count, *, seed=3, start=0):
    return list(islice(order(parts, seed=seed, start=start), count))


def drawn(samples, config, count, **place):
    return [samples[index] for index in taken(strata(samples, config), count, **place)]


@pytest.mark.parametrize(
    ("shares", "total", "counts"),
    [
        ([1.0], 5, [5]),
        ([0.5, 0.3, 0.2], 10, [5, 3, 2]),
        ([0.5, 0.3, 0.2], 11, [6, 3, 2]),  # quotas 5.5 3.3 2.2
        ([1 / 3, 1 / 3, 1 / 3], 1000, [334, 333, 333]),
        ([0.3, 0.7], 1000, [300, 700]),
        ([0.9998, 0.0001, 0.0001], 1000, [998, 1, 1]),
        ([0.001] * 4 + [0.996], 6, [1, 1, 1, 1, 2]),
    ],
)
def test_places_are_dealt_by_largest_remainder_and_none_goes_empty(shares, total, counts):
    assert apportion(shares, total) == counts


def test_without_weights_every_sample_comes_once_per_epoch_in_an_order_that_changes():
    samples = made_samples(a_video=4, b_text=3)
    [stratum] = strata(samples, made_config({"a": None, "b": None}))
    indices = taken([stratum], 7 * 300)
    epochs = [indices[start : start + 7] for start in range(0, len(indices), 7)]
    assert {tuple(sorted(epoch)) for epoch in epochs} == {tuple(range(7))}
    assert len(set(map(tuple, epochs[:20]))) > 15
    assert taken([stratum], 7, seed=4) != epochs[0]


def test_weights_are_shares_of_the_places_exact_over_a_round():
    samples = made_samples(a_video=50, b_video=3)
    files = Counter(sample.source for sample in drawn(samples, made_config({"a": 3.0, "b": 1.0}), MIN_ROUND))
    assert files == {"a": 750, "b": 250}


def test_any_stretch_of_places_has_about_the_shares():
    samples = made_samples(a_video=70, b_video=30, c_video=5)
    files = [s.source for s in drawn(samples, made_config({"a": 0.6, "b": 0.3, "c": 0.1}), 3 * MIN_ROUND)]
    for start in range(0, len(files) - 40, 7):
        found = Counter(files[start : start + 40])
        for file, share in (("a", 0.6), ("b", 0.3), ("c", 0.1)):
            assert abs(found[file] - 40 * share) <= 3, (start, found)


def test_ratios_are_shares_of_modalities_over_all_files():
    samples = made_samples(a_video=90, a_text=5, b_image=40, b_text=5)
    config = made_config({"a": None, "b": None}, modality_ratios={"video": 0.5, "image": 0.3, "text": 0.2})
    kinds = Counter(sample.modality for sample in drawn(samples, config, MIN_ROUND))
    assert kinds == {"video": 500, "image": 300, "text": 200}


def test_weights_and_ratios_hold_together_where_they_can():
    samples = made_samples(a_video=10, a_text=10, b_video=10, b_text=10)
    config = made_config({"a": 0.8, "b": 0.2}, modality_ratios={"video": 0.25, "text": 0.75})
    cells = Counter((s.source, s.modality) for s in drawn(samples, config, MIN_ROUND))
    # Equal sizes: the closest table with these margins is their product.
    assert cells == {("a", "video"): 200, ("a", "text"): 600, ("b", "video"): 50, ("b", "text"): 150}


def test_cells_that_no_sample_fills_leave_their_share_to_the_others():
    samples = made_samples(a_video=6, b_text=6, b_video=6)
    config = made_config({"a": 0.4, "b": 0.6}, modality_ratios={"video": 0.7, "text": 0.3})
    cells = Counter((s.source, s.modality) for s in drawn(samples, config, MIN_ROUND))
    assert cells == {("a", "video"): 400, ("b", "video"): 300, ("b", "text"): 300}


@pytest.mark.parametrize("start", [0, 1, 7, 999, 1000, 1001, 2345])
def test_starting_at_any_place_goes_on_as_if_never_stopped(start):
    samples = made_samples(a_video=11, a_text=4, b_text=5)
    parts = strata(samples, made_config({"a": 2.0, "b": 1.0}, modality_ratios={"video": 1.0, "text": 2.0}))
    assert taken(parts, 300, start=start) == taken(parts, start + 300)[start:]


def test_a_stratum_repeats_no_sample_before_all_have_come():
    parts = [
        Stratum(indices=np.arange(0, 37), share=0.55),
        Stratum(indices=np.arange(37, 40), share=0.44),
        Stratum(indices=np.arange(40, 45), share=0.01),
    ]
    indices = np.array(taken(parts, 4 * MIN_ROUND))
    for low, high in ((0, 37), (37, 40), (40, 45)):
        visits = indices[(indices >= low) & (indices < high)]
        size = high - low
        epochs = visits[: len(visits) // size * size].reshape(-1, size)
        assert len(epochs) >= 8
        assert (np.sort(epochs, axis=1) == np.arange(low, high)).all()


def test_strata_do_not_walk_in_step():
    parts = [Stratum(indices=np.arange(8), share=0.5), Stratum(indices=np.arange(8), share=0.5)]
    indices = taken(parts, 16)
    assert indices[::2] != indices[1::2]


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"train": [{"path": "a.jsonl", "weight": 0}]}, r"data\.train: the weight of a\.jsonl .*> 0, got 0; .*leave"),
        ({"train": [{"path": "a.jsonl", "weight": -1}]}, "> 0, got -1"),
        ({"train": [{"path": "a.jsonl", "weight": float("nan")}]}, "> 0, got nan"),
        ({"train": [{"path": "a.jsonl", "weight": 1}, {"path": "b.jsonl"}]}, r"b\.jsonl has no weight.*every file one"),
        ({"train": [{"path": "x/a.jsonl"}, {"path": "y/a.jsonl"}]}, "two files are called 'a'.*`name`"),
        ({"train": [], "validation": [{"path": "v.jsonl", "weight": 1}]}, r"data\.validation: v\.jsonl .*remove"),
        (
            {"train": [], "modality_ratios": {"vido": 1}},
            r"data\.modality_ratios: unknown modality 'vido'; known:.*video",
        ),
        ({"train": [], "modality_ratios": {"text": 0}}, r"data\.modality_ratios: text must be .*> 0, got 0"),
        ({"train": [], "modality_ratios": {"text": "many"}}, "'modality_ratios.text' must be float"),
    ],
)
def test_wrong_shares_name_the_field_and_the_remedy(tree, said):
    with pytest.raises(UsageError, match=said):
        build(DataConfig, tree, where="test")


@pytest.mark.parametrize(
    ("files", "ratios", "said"),
    [
        ({"a": 1.0, "b": 1.0, "c": 1.0}, None, "weight: no usable sample is of file 'c'"),
        ({"a": 1.0}, None, "weight: samples are of file 'b', which has no value"),
        ({}, {"video": 1.0}, "modality_ratios: samples are of modality 'text', which has no value"),
        ({}, {"video": 1.0, "text": 1.0, "image": 1.0}, "modality_ratios: no usable sample is of modality 'image'"),
        ({"a": 0.5, "b": 0.5}, {"video": 0.2, "text": 0.8}, "contradict each other.*file '[ab]' cannot have 0.5"),
    ],
)
def test_shares_that_the_samples_cannot_have_are_refused(files, ratios, said):
    samples = made_samples(a_video=5, b_text=5)
    with pytest.raises(UsageError, match=said):
        strata(samples, made_config(files, modality_ratios=ratios))


def test_the_name_of_a_file_can_be_chosen():
    config = build(DataConfig, {"train": [{"path": "x/a.jsonl"}, {"path": "y/a.jsonl", "name": "b"}]}, where="test")
    assert [source.label for source in config.train] == ["a", "b"]


def test_each_round_starts_a_stratum_anew_at_a_random_place():
    """A stratum with one place in a round would else always meet the same neighbours, at the same point of a step."""
    samples = made_samples(a_video=MIN_ROUND - 1, b_video=1)
    config = made_config({"a": (MIN_ROUND - 1) / MIN_ROUND, "b": 1 / MIN_ROUND})
    rare = len(samples) - 1
    indices = taken(strata(samples, config), 12 * MIN_ROUND)
    places = [place % MIN_ROUND for place, index in enumerate(indices) if index == rare]
    assert len(places) == 12
    assert len(set(places)) >= 10
    assert min(places) < MIN_ROUND / 3
    assert max(places) > 2 * MIN_ROUND / 3
