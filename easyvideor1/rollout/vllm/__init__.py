"""Rollouts by vLLM, in this process or by servers; the only room that imports it (docs/vllm.md)."""
