"""Requests under way in an engine core, by a scripted one: cut, asked again, given up, checked; nothing hangs."""

from collections.abc import Generator, Sequence
from typing import Any

import pytest
import torch
from support.asking import answered, requests
from support.fake_core import LOGPROB, FakeCore, Script
from support.tiny_models import IMAGE, VIDEO, tiny_case, tiny_model

from easyvideor1.errors import MismatchError, RunError
from easyvideor1.rollout.engine import Sampling
from easyvideor1.rollout.vllm.colocated import VLLMEngine
from easyvideor1.rollout.vllm.contract import Asked, Kind
from easyvideor1.rollout.vllm.pump import MAX_REDRAWS, READINGS_PER_KIND, Pump
from easyvideor1.types import Example, StopReason

END = 7
BANNED = (IMAGE, VIDEO)


def examples(num: int = 3) -> list[Example]:
    model = tiny_model("qwen3_vl")
    made = []
    for index in range(num):
        case = tiny_case(model, name=str(index), lengths=[1], text_len=4 + index, seed=index)
        made.append(Example(prompt=case.group.prompt, clips=(), features=case.features))
    return made


def made_engine(
    script: Script, *, kind: Kind = "raw_logprobs", tokens_per_batch: int = 1000, **changes: Any
) -> tuple[VLLMEngine, FakeCore, Pump]:
    core = FakeCore(script)
    options = {"seeded": True, "deadline_s": 60.0} | changes
    pump = Pump(core, kind=kind, end_ids=(END,), banned_ids=BANNED, text_of=str, **options)
    return VLLMEngine(core, pump, tokens_per_batch=tokens_per_batch), core, pump


def test_rollouts_come_as_they_complete_with_the_version_of_the_weights():
    engine, core, _ = made_engine(lambda example, asked: [1, 2, END])
    engine.load_weights([("a", torch.zeros(1))], version=5)
    groups = answered(engine, requests(examples(), Sampling(n=2, max_response_tokens=8)))
    assert [len(group) for group in groups] == [2, 2, 2]
    for rollout in groups[0]:
        assert rollout.token_ids == (1, 2, END)
        assert rollout.logprobs == (LOGPROB,) * 3
        assert rollout.stop_reason is StopReason.EOS
        assert rollout.weights_version == 5
    assert core.calls == ["sleep", "wake", "load 1", "sleep", "wake", "sleep"]


def test_every_response_has_a_seed_of_its_own_that_only_its_request_decides():
    def seeds(order: int, **changes: Any) -> dict[tuple[int, ...], set[int | None]]:
        engine, core, _ = made_engine(lambda example, asked: [len(example.prompt), END], **changes)
        answered(engine, requests(examples()[::order], Sampling(n=2, max_response_tokens=4), seed=3))
        return {(): {asked.seed for asked in core.asked}}

    assert seeds(1) == seeds(-1)
    assert len(seeds(1)[()]) == 6
    assert seeds(1, seeded=False)[()] == {None}


def test_a_response_is_cut_before_a_banned_token_and_goes_on_from_there():
    def script(example: Example, asked: Asked) -> Sequence[int]:
        return [1, IMAGE] if not asked.written else [2, VIDEO] if len(asked.written) == 1 else [3, END]

    engine, core, _ = made_engine(script, kind="processed_logprobs")
    sampling = Sampling(temperature=0.7, max_response_tokens=6)
    [[rollout]] = answered(engine, requests(examples(1), sampling))
    assert rollout.token_ids == (1, 2, 3, END)
    assert rollout.logprobs == (LOGPROB,) * 4
    assert [asked.written for asked in core.asked] == [(), (1,), (1, 2)]
    assert [asked.max_tokens for asked in core.asked] == [6, 5, 4]
    assert len({asked.seed for asked in core.asked}) == 3, "the same draw would end at the same token for ever"
    assert not any(asked.terms.bans_by_bias for asked in core.asked)


def test_a_response_that_always_comes_to_a_banned_token_is_given_up():
    engine, core, _ = made_engine(lambda example, asked: [VIDEO])
    [[rollout]] = answered(engine, requests(examples(1), Sampling(max_response_tokens=6)))
    assert rollout.stop_reason is StopReason.ABORT
    assert len(core.asked) == MAX_REDRAWS + 1


def test_the_longest_response_is_cut_there_and_a_banned_last_token_is_drawn_again():
    engine, _core, _ = made_engine(lambda example, asked: [1, 2, IMAGE] if not asked.written else [4])
    [[rollout]] = answered(engine, requests(examples(1), Sampling(max_response_tokens=3)))
    assert rollout.token_ids == (1, 2, 4)
    assert rollout.stop_reason is StopReason.LENGTH


def test_banned_hits_are_places_where_a_banned_token_was_the_likeliest():
    engine, core, _ = made_engine(lambda example, asked: [1, 2, END])
    core.likeliest = VIDEO
    answered(engine, requests(examples(2), Sampling(max_response_tokens=3)))
    assert engine.banned_hits == 6


@pytest.mark.parametrize(
    ("kind", "sampling", "is_known"),
    [
        ("raw_logprobs", Sampling(max_response_tokens=3), True),
        ("raw_logprobs", Sampling(top_p=0.5, max_response_tokens=3), True),
        ("raw_logprobs", Sampling(temperature=0.0, max_response_tokens=3), True),
        ("raw_logprobs", Sampling(temperature=0.7, max_response_tokens=3), False),
        ("processed_logprobs", Sampling(temperature=0.7, max_response_tokens=3), True),
        ("processed_logprobs", Sampling(temperature=0.7, top_k=5, max_response_tokens=3), False),
        ("processed_logprobs", Sampling(temperature=0.0, max_response_tokens=3), False),
    ],
)
def test_log_probs_that_are_not_ours_are_not_told(kind: Kind, sampling: Sampling, is_known: bool):
    engine, core, _ = made_engine(lambda example, asked: [1, END], kind=kind)
    [[rollout]] = answered(engine, requests(examples(1), sampling))
    assert (rollout.logprobs is not None) == is_known
    assert core.asked[0].terms.bans_by_bias == (kind == "raw_logprobs" or not is_known)


def test_what_is_late_is_given_up_and_the_rest_comes():
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    engine, core, _ = made_engine(
        lambda example, asked: None if example.sample.id == "1" else [1, END], deadline_s=30.0, clock=clock
    )
    groups = answered(engine, requests(examples(), Sampling(n=2, max_response_tokens=4)))
    reasons = [{rollout.stop_reason for rollout in group} for group in groups]
    assert reasons == [{StopReason.EOS}, {StopReason.ABORT}, {StopReason.EOS}]
    assert not core._open


def test_requests_are_taken_when_there_is_room():
    prompts = examples()
    taken: list[int] = []

    def lazily():
        for number, request in enumerate(requests(prompts, Sampling(n=2, max_response_tokens=4))):
            taken.append(number)
            yield request

    engine, core, _ = made_engine(lambda example, asked: [1, END], tokens_per_batch=20)
    with engine.awake():
        stream = engine.generate(lazily())
        next(stream)
        assert taken == [0, 1], "the next request is at hand, not asked"
        assert core.most_open == 2
        assert len(list(stream)) == 2


def test_a_request_that_is_not_ready_is_asked_for_again_between_steps():
    first, second, third = requests(examples(), Sampling(max_response_tokens=4))
    engine, _core, _ = made_engine(lambda example, asked: [len(example.prompt), END])
    groups = answered(engine, [first, None, second, None, None, third])
    assert [group[0].token_ids[0] for group in groups] == [7, 8, 9]


def test_nothing_is_left_in_the_engine_when_the_consumer_stops():
    engine, core, pump = made_engine(lambda example, asked: [1, END])
    with engine.awake():
        stream = engine.generate(requests(examples(), Sampling(n=4, max_response_tokens=4)))
        next(stream)
        assert isinstance(stream, Generator)
        stream.close()
    assert not core._open
    assert not len(pump)


def test_an_engine_that_fails_ends_the_run_and_not_in_a_hang():
    engine, core, _ = made_engine(lambda example, asked: [1, END])
    core.error = RunError("vLLM failed while sampling")
    with pytest.raises(RunError, match="vLLM failed"):
        answered(engine, requests(examples(), Sampling(max_response_tokens=4)))


def test_a_shifted_position_is_an_error_that_names_the_sample_and_the_token():
    engine, core, _ = made_engine(lambda example, asked: [1, END])
    core.shift = 1
    with pytest.raises(MismatchError, match=r"sample 0: .*token 0 of 7 stands at \[1, 1, 1\] there and at \[0, 0, 0\]"):
        answered(engine, requests(examples(), Sampling(max_response_tokens=4)))


def test_another_reading_of_the_prompt_is_an_error_and_only_the_first_prompts_are_read():
    engine, core, _ = made_engine(lambda example, asked: [1, END])
    prompts = examples(READINGS_PER_KIND + 1)
    answered(engine, requests(prompts[:READINGS_PER_KIND], Sampling(max_response_tokens=4)))
    core.changed["input_ids"] = [1, 2, 3]
    answered(engine, requests(prompts[READINGS_PER_KIND:], Sampling(max_response_tokens=4)))
    engine, core, _ = made_engine(lambda example, asked: [1, END])
    core.changed["input_ids"] = [1, 2, 3]
    with pytest.raises(MismatchError, match="sample 0: vLLM's own reading of the prompt is another one: 3 tokens"):
        answered(engine, requests(prompts, Sampling(max_response_tokens=4)))
