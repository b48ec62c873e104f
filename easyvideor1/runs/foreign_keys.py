"""The keys of EasyVideoR1's configuration (7ab338b), each with its default and with ours, or the reason why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

SAME = {
    "data.video_fps": "data.video.fps",
    "data.video_max_frames": "data.video.max_frames",
    "data.video_total_pixels": "data.video.total_pixels",
    "data.max_prompt_length": "data.max_prompt_tokens",
    "data.max_response_length": "rollout.max_response_tokens",
    "data.rollout_batch_size": "train.prompts_per_step",
    "data.format_prompt": "data.templates",
    "data.override_chat_template": "model.chat_template",
    "data.shuffle": "data.shuffle",
    "data.val_video_source_mode": "validation.cache_mode",
    "data.seed": "seed",
    "worker.actor.model.model_path": "model.path",
    "worker.actor.model.tokenizer_path": "model.tokenizer",
    "worker.actor.model.enable_gradient_checkpointing": "model.gradient_checkpointing",
    "worker.actor.model.freeze_vision_tower": "model.freeze_vision_tower",
    "worker.actor.optim.lr": "optimizer.learning_rate",
    "worker.actor.optim.weight_decay": "optimizer.weight_decay",
    "worker.actor.max_grad_norm": "optimizer.max_grad_norm",
    "worker.actor.use_torch_compile": "parallel.compile",
    "worker.actor.ulysses_size": "parallel.sequence",
    "worker.actor.ppo_epochs": "train.passes",
    "worker.rollout.n": "rollout.n",
    "worker.rollout.temperature": "rollout.temperature",
    "worker.rollout.top_p": "rollout.top_p",
    "trainer.project_name": "project",
    "trainer.val_before_train": "validation.before_training",
}
"""Keys whose values mean the same here."""
_TABLE = """
data.train_files|""|data.train|a file, a folder or FOLDER@SPLIT, or a list of them
data.val_files|""|data.validation|as before
data.prompt_key|prompt||rows call it `problem`; `data convert --map problem=NAME` renames it
data.answer_key|answer||rows call it `answer`; `data convert --map answer=NAME` renames it
data.image_key|images||rows call it `images`; `data convert --map images=NAME` renames it
data.video_key|videos||rows call it `videos`; `data convert --map videos=NAME` renames it
data.image_dir|null|data.train[].media_root|of each source, for videos too
data.video_fps|2.0|data.video.fps|
data.video_max_frames|128|data.video.max_frames|
data.max_prompt_length|512|data.max_prompt_tokens|media count, as there
data.max_response_length|512|rollout.max_response_tokens|
data.rollout_batch_size|512|train.prompts_per_step|prompts, as there
data.mini_rollout_batch_size|null||prompts are sampled as there is room (`rollout.tokens_per_batch`)
data.val_batch_size|-1||questions are asked as there is room
data.format_prompt|null|data.templates|the file itself, for all types
data.override_chat_template|null|model.chat_template|
data.shuffle|true|data.shuffle|
data.seed|1|seed|
data.min_pixels|262144|data.video.min_pixels|and `data.image.min_pixels`, where those of the kind are not given
data.max_pixels|4194304|data.video.max_pixels|and `data.image.max_pixels`, where those of the kind are not given
data.image_min_pixels|null|data.image.min_pixels|
data.image_max_pixels|null|data.image.max_pixels|
data.video_min_pixels|null|data.video.min_pixels|
data.video_max_pixels|null|data.video.max_pixels|
data.video_total_pixels|null|data.video.total_pixels|
data.val_video_fps|null|data.validation[].video|of each source: {fps: ..}
data.val_video_max_frames|null|data.validation[].video|{max_frames: ..}
data.val_video_min_pixels|null|data.validation[].video|{min_pixels: ..}
data.val_video_max_pixels|null|data.validation[].video|{max_pixels: ..}
data.val_video_total_pixels|null|data.validation[].video|{total_pixels: ..}
data.filter_overlong_prompts|true|data.on_bad_sample|true: skip (broken media are skipped and counted too); false: error
data.filter_overlong_prompts_workers|16||lengths are known from the plan, without decoding
data.use_preprocessed_videos|true|cache.mode|false: realtime_only
data.video_source_mode|null|cache.mode|the same three names
data.preprocessed_video_dir|null|cache.dir|`easyvideor1 cache import FOLDER --data FILE` takes the frames over
data.val_preprocessed_video_dir|null|cache.dir|one cache serves both: the key of an entry holds its settings
data.val_video_source_mode|null|validation.cache_mode|the same three names
algorithm.gamma|1.0|algorithm.options.gae_gamma|of gae; the others look at whole responses
algorithm.lam|1.0|algorithm.options.gae_lambda|of gae
algorithm.adv_estimator|grpo|algorithm.name|grpo, ema_grpo, rloo, remax, reinforce_plus_plus, gdpo; gae: ppo
algorithm.gdpo_reward_keys|[accuracy, format]|reward.weights|the parts that have a weight
algorithm.disable_kl|false|algorithm.options.kl_coef|true: 0
algorithm.use_kl_loss|false|algorithm.options.kl_in|true: loss; false: reward
algorithm.kl_penalty|kl|algorithm.options.kl_kind|kl: k1, abs: abs, mse: k2, low_var_kl: k3, full: full
algorithm.kl_coef|0.001|algorithm.options.kl_coef|
algorithm.kl_type|fixed|algorithm.options.kl_target|adaptive: give a target
algorithm.kl_horizon|10000.0|algorithm.options.kl_horizon|
algorithm.kl_target|0.1|algorithm.options.kl_target|nats of a token
algorithm.online_filtering|false|algorithm.options.filter_part|
algorithm.filter_key|overall|algorithm.options.filter_part|
algorithm.filter_low|0.01|algorithm.options.filter_low|
algorithm.filter_high|0.99|algorithm.options.filter_high|
trainer.total_epochs|15|train.epochs|
trainer.max_steps|null|train.steps|instead of epochs
trainer.project_name|easy_r1|project|
trainer.experiment_name|demo|out|the name of the folder
trainer.logger|[console, wandb]|trackers|console and file are always there
trainer.nnodes|1||the launcher says it: `torchrun --nnodes`
trainer.n_gpus_per_node|8||the launcher says it: `torchrun --nproc-per-node`
trainer.max_try_make_batch|20|algorithm.options.refill_rounds|rounds that refill what was dropped, not whole batches
trainer.critic_warmup|0|algorithm.options.value_warmup_steps|of gae; steps in which the value head alone learns
trainer.val_freq|-1|train.validate_every|-1: 0, before the first and after the last step
trainer.val_before_train|true|validation.before_training|
trainer.val_only|false|train.steps|true: 0
trainer.val_generations_to_log|0||all answers are in validation.jsonl and in the report
trainer.save_freq|-1|train.checkpoint_every|-1: 0, before the first and after the last step
trainer.save_limit|-1|train.keep_checkpoints|the best one is kept beside them
trainer.save_model_only|false|train.checkpoint_optimizer|true: false; see `train.fresh_optimizer`
trainer.save_checkpoint_path|null|out|
trainer.load_checkpoint_path|null|model.path|a run or one of its checkpoints can be the model of a new run
trainer.ray_timeline|null||no Ray in training; metrics.jsonl has the times of every stage
trainer.find_last_checkpoint|true|out|the same command in the same folder goes on
worker.actor.model.model_path|null|model.path|a local folder
worker.actor.model.tokenizer_path|null|model.tokenizer|a folder; where vLLM samples, copy it into the model's folder
worker.actor.model.enable_gradient_checkpointing|true|model.gradient_checkpointing|
worker.actor.model.trust_remote_code|true||no code from a model's folder is ever run
worker.actor.model.freeze_vision_tower|false|model.freeze_vision_tower|
worker.actor.optim.lr|1.0e-06|optimizer.learning_rate|
worker.actor.optim.betas|[0.9, 0.999]|optimizer.betas|
worker.actor.optim.weight_decay|0.01|optimizer.weight_decay|
worker.actor.optim.strategy|adamw|optimizer.states|adamw: float32; adamw_bf16: bfloat16, of the moments only
worker.actor.optim.lr_warmup_ratio|0.0|optimizer.warmup_frac|
worker.actor.optim.lr_warmup_steps|null|optimizer.warmup_steps|
worker.actor.optim.min_lr_ratio|null|optimizer.min_learning_rate_frac|
worker.actor.optim.lr_scheduler_type|constant|optimizer.schedule|
worker.actor.fsdp.enable_full_shard|true|parallel.shard|false: none
worker.actor.fsdp.enable_cpu_offload|false|parallel.cpu_offload|
worker.actor.fsdp.enable_rank0_init|true||weights are read from their files straight into the shards
worker.actor.fsdp.use_orig_params|false||FSDP2 always keeps the parameters
worker.actor.fsdp.torch_dtype|null||master weights are float32
worker.actor.fsdp.fsdp_size|-1|parallel.shard|above 0: hybrid, by machine
worker.actor.fsdp.mp_param_dtype|bf16|model.dtype|
worker.actor.fsdp.mp_reduce_dtype|fp32||always float32
worker.actor.fsdp.mp_buffer_dtype|fp32||buffers keep their type
worker.ref.fsdp.enable_full_shard|true||the reference is sharded as the policy
worker.ref.fsdp.enable_cpu_offload|false||the reference is kept as the policy
worker.ref.fsdp.enable_rank0_init|true||weights are read from their files straight into the shards
worker.ref.fsdp.use_orig_params|false||FSDP2 always keeps the parameters
worker.ref.fsdp.torch_dtype|null||that of the policy
worker.ref.fsdp.fsdp_size|-1||the reference is sharded as the policy
worker.ref.fsdp.mp_param_dtype|bf16||that of the policy
worker.ref.fsdp.mp_reduce_dtype|fp32||always float32
worker.ref.fsdp.mp_buffer_dtype|fp32||buffers keep their type
worker.actor.offload.offload_params|false|parallel.cpu_offload|or offload_optimizer: both lie in main memory
worker.actor.offload.offload_optimizer|false|parallel.cpu_offload|as before; or a smaller one, `optimizer.states: 8bit`
worker.ref.offload.offload_params|false||the reference is kept as the policy
worker.ref.offload.offload_optimizer|false||a reference has no optimizer
worker.actor.strategy|fsdp||FSDP2 (see `parallel`)
worker.actor.global_batch_size|256|train.updates_per_step|rollout_batch_size / global_batch_size
worker.actor.micro_batch_size_per_device_for_update|4||packs are filled by tokens: `train.tokens_per_pack`
worker.actor.micro_batch_size_per_device_for_experience|16||packs are filled by tokens: `train.tokens_per_pack`
worker.actor.max_grad_norm|1.0|optimizer.max_grad_norm|
worker.actor.clip_ratio_low|0.2|algorithm.options.clip_low|
worker.actor.clip_ratio_high|0.3|algorithm.options.clip_high|
worker.actor.clip_ratio_dual|3.0|algorithm.options.dual_clip|
worker.actor.loss_avg_mode|token|algorithm.options.average|token, or seq: sequence
worker.actor.loss_type|default|algorithm.options.loss|default, cispo; gspo and gspo_token are `ratio`
worker.actor.ppo_epochs|1|train.passes|
worker.actor.padding_free|true||always
worker.actor.dynamic_batching|true||always
worker.actor.max_token_len_per_gpu|null|train.tokens_per_pack|at least the longest prompt with its response
worker.actor.ulysses_size|1|parallel.sequence|a divisor of the number of GPUs and of attention heads
worker.actor.use_torch_compile|true|parallel.compile|
worker.ref.strategy|fsdp||FSDP2 (see `parallel`)
worker.rollout.name|vllm|rollout.engine|
worker.rollout.n|1|rollout.n|
worker.rollout.temperature|1.0|rollout.temperature|
worker.rollout.top_p|1.0|rollout.top_p|
worker.rollout.top_k|-1|rollout.top_k|-1: 0
worker.rollout.seed|1||`seed`, and the place of a sample, decide every token
worker.rollout.limit_images|0||the rows decide
worker.rollout.dtype|bf16||that of the model
worker.rollout.gpu_memory_utilization|0.6|rollout.vllm.engine_args|{gpu_memory_utilization: ..}
worker.rollout.ignore_eos|false||a response ends where the model ends it
worker.rollout.enforce_eager|false|rollout.vllm.engine_args|{enforce_eager: ..}
worker.rollout.enable_chunked_prefill|false|rollout.vllm.engine_args|{enable_chunked_prefill: ..}
worker.rollout.tensor_parallel_size|2||each rank samples with an engine of its own; or `rollout.engine: vllm_server`
worker.rollout.max_model_len|null||`data.max_prompt_tokens` + `rollout.max_response_tokens`
worker.rollout.max_num_batched_tokens|8192|rollout.vllm.engine_args|{max_num_batched_tokens: ..}
worker.rollout.disable_log_stats|true||rates of the engine are in metrics.jsonl
worker.rollout.disable_tqdm|false||progress is shown on a terminal only
worker.rollout.enable_mix_policy|false|offline.enable|
worker.rollout.mix_policy_accuracy_threshold|null|offline.accuracy_threshold|
worker.rollout.val_override_config|{}|validation|temperature, top_p, top_k; n: `train.validation_samples`
worker.reward.reward_function|null|reward.rewards|{"*": FILE:NAME}, run as it is
worker.reward.reward_function_kwargs|{}|reward.arguments|{"*": {..}}
worker.reward.skip_special_tokens|true||always
worker.reward.num_cpus|1||`reward.workers` processes that can be killed
worker.critic.strategy|fsdp||a value head on the policy's layers, sharded with it
worker.critic.global_batch_size|256|train.updates_per_step|that of the policy: one loss for both
worker.critic.micro_batch_size_per_device_for_update|4||the packs of the policy: one forward for both
worker.critic.micro_batch_size_per_device_for_experience|16||the packs of the policy: one forward for both
worker.critic.max_grad_norm|1.0|optimizer.max_grad_norm|the head's gradient is bounded by itself
worker.critic.cliprange_value|0.5|algorithm.options.value_clip|of gae
worker.critic.loss_avg_mode|token|algorithm.options.average|that of the policy
worker.critic.ppo_epochs|1|train.passes|that of the policy
worker.critic.padding_free|false||always
worker.critic.dynamic_batching|true||always
worker.critic.max_token_len_per_gpu|null||that of the policy: one forward for both
worker.critic.ulysses_size|1||that of the policy: one forward for both
"""


@dataclass(frozen=True)
class Equivalent:
    """A key of theirs."""

    name: str
    default: Any
    ours: str
    """Our key that takes its value or follows from it; "" where there is none."""
    note: str
    """How the value is read, or why there is none."""


def _row(line: str) -> Equivalent:
    name, default, ours, note = line.split("|")
    return Equivalent(name, yaml.safe_load(default), ours, note)


KEYS = tuple(_row(line) for line in _TABLE.strip().splitlines())
"""In the order of their files."""
