"""Memory is used again when it is free, and never before."""

from concurrent.futures import ThreadPoolExecutor

import torch

from easyvideor1.data.buffers import LEAST_BYTES, BufferPool

MB = 1 << 20


def test_memory_is_used_again_once_nobody_holds_it():
    pool = BufferPool()
    first = pool.empty((2, MB), torch.uint8)
    place = first.data_ptr()
    second = pool.empty((2, MB), torch.uint8)
    assert second.data_ptr() != place
    del first
    third = pool.empty((MB,), torch.bfloat16)
    assert third.data_ptr() == place
    assert (third.shape, third.dtype, pool.free_bytes) == ((MB,), torch.bfloat16, 0)


def test_views_hold_the_memory():
    pool = BufferPool()
    tensor = pool.empty((MB, 2), torch.float32)
    place = tensor.data_ptr()
    holders = [tensor[5:, 1].view(torch.int32), tensor.numpy()[3:], tensor.detach()]
    del tensor
    while holders:
        assert pool.free_bytes == 0
        assert pool._take(8 * MB).ctypes.data != place
        holders.pop()
    assert pool.free_bytes == 8 * MB
    assert pool.empty((MB, 2), torch.float32).data_ptr() == place


def test_a_buffer_of_about_the_size_is_taken_and_a_far_larger_one_is_not():
    pool = BufferPool()
    pool.empty((8 * MB,), torch.uint8)
    assert pool.free_bytes == 8 * MB
    small = pool.empty((2 * MB,), torch.uint8)
    assert pool.free_bytes == 8 * MB
    fitting = pool.empty((5 * MB,), torch.uint8)
    assert pool.free_bytes == 0
    assert (small.shape, fitting.shape) == ((2 * MB,), (5 * MB,))


def test_what_is_kept_is_bounded_and_small_tensors_are_not_kept():
    pool = BufferPool(most_free_bytes=5 * MB)
    tensors = [pool.empty((2 * MB,), torch.uint8) for _ in range(4)]
    del tensors
    assert pool.free_bytes == 4 * MB
    pool.empty((LEAST_BYTES - 1,), torch.uint8)
    assert pool.free_bytes == 4 * MB


def test_threads_never_share_memory():
    pool = BufferPool()

    def work(number: int) -> bool:
        tensor = pool.empty((LEAST_BYTES,), torch.uint8).fill_(number)
        return bool((tensor == number).all())

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(200)))
