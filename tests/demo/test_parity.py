"""The shipped model: what the sampler says of its tokens is what the actor computes for them, for every modality."""

import numpy as np
import pytest
import torch
from support.asking import answered, requests
from transformers import AutoModelForImageTextToText

from easyvideor1.data.encode import Encoder
from easyvideor1.data.prepare import Preparer
from easyvideor1.demo.build import IMAGE_SPEC, VIDEO_SPEC
from easyvideor1.demo.clips import Scene, Thing, write_clip, write_image
from easyvideor1.demo.setup import MODEL
from easyvideor1.rollout.engine import Sampling
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.training import shared_prefix
from easyvideor1.training.logprobs import response_logprobs
from easyvideor1.training.pack import pack_groups
from easyvideor1.types import Group, Media, Sample
from easyvideor1.video.cache import FrameCache

KINDS = ("text", "image", "video", "mixed")


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("media")
    thing = Thing(colour="red", shape="circle", x=0.3, y=0.5, radius=0.15, dx_per_s=0.15)
    scene = Scene(things=(thing,), duration_s=3.0, background="gradient", shade=70, texture_seed=1)
    write_clip(scene, folder / "a.mp4", side_px=64)
    write_image(scene, folder / "b.png", side_px=64)
    video = Media(kind="video", path=str(folder / "a.mp4"))
    image = Media(kind="image", path=str(folder / "b.png"))
    media = {"text": (), "image": (image,), "video": (video,), "mixed": (image, video)}
    options = ("A. red", "B. blue", "C. green", "D. yellow")
    return {
        kind: Sample(
            id=kind,
            problem_type="multiple choice",
            problem="What colour is the shape?",
            gold="A",
            options=options,
            media=media[kind],
        )
        for kind in KINDS
    }


@pytest.mark.parametrize("kind", KINDS)
def test_sampler_and_actor_agree_on_every_token(samples, tmp_path, kind):
    encoder = Encoder.from_pretrained(MODEL)
    prepare = Preparer(
        encoder,
        FrameCache(tmp_path),
        video=VIDEO_SPEC,
        image=IMAGE_SPEC,
        thinking=True,
        max_prompt_tokens=512,
        dtype=torch.float32,
    )
    model = AutoModelForImageTextToText.from_pretrained(MODEL, dtype=torch.float32)
    shared_prefix.enable(model)
    example = prepare(samples[kind])
    engine = HFEngine(model, encoder, tokens_per_batch=1000)
    (rollouts,) = answered(engine, requests([example], Sampling(n=8, max_response_tokens=40)))
    group = Group(prompt=example.prompt, rollouts=rollouts, advantages=(1.0,) * 8, weights=(1.0,) * 8)
    (pack,) = pack_groups([group], tokens_per_pack=4096).packs
    with torch.no_grad():
        logprobs, _ = response_logprobs(model, pack, {0: example.features})
    np.testing.assert_allclose(logprobs, pack.tokens.sampler_logprobs, atol=1e-4)
    assert len({rollout.text for rollout in rollouts}) > 1
