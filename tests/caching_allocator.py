"""torch's CUDA caching allocator, modelled: which pieces of memory it asks the driver for, given what is allocated.

After c10/cuda/CUDACachingAllocator.cpp: sizes are rounded up to 512 bytes; up to 1 MiB come from pieces of 2 MiB, up
to 10 MiB from pieces of 20 MiB, and larger ones have a piece of their own, rounded up to 2 MiB; the smallest free block
that is large enough is taken, and split where what is left is worth keeping; free neighbours are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

MIB = 1 << 20


@dataclass
class Block:
    piece: int
    start: int
    size: int
    free: bool = False


class CachingAllocator:
    """asked: pieces asked of the driver. reserved: their bytes now; peak: the most there were."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.by_pointer: dict[int, Block] = {}
        self.small: set[int] = set()
        self.asked = self.reserved = self.peak = 0
        self._pieces = 0

    def allocate(self, pointer: int, size: int) -> None:
        size = max(512, -(-size // 512) * 512)
        small = size <= MIB
        fitting = [b for b in self.blocks if b.free and b.size >= size and (b.piece in self.small) == small]
        block = min(fitting, key=lambda b: b.size) if fitting else self._ask(size, small)
        left = block.size - size
        if left >= 512 if small else left > MIB:
            self.blocks.insert(self.blocks.index(block) + 1, Block(block.piece, block.start + size, left, free=True))
            block.size = size
        block.free = False
        self.by_pointer[pointer] = block

    def _ask(self, size: int, small: bool) -> Block:
        piece = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        self._pieces += 1
        self.asked += 1
        self.reserved += piece
        self.peak = max(self.peak, self.reserved)
        if small:
            self.small.add(self._pieces)
        self.blocks.append(Block(self._pieces, 0, piece))
        return self.blocks[-1]

    def release(self, pointer: int) -> None:
        if pointer not in self.by_pointer:  # allocated before anybody looked
            return
        self.by_pointer.pop(pointer).free = True
        joined: list[Block] = []
        for block in self.blocks:
            if joined and joined[-1].free and block.free and joined[-1].piece == block.piece:
                joined[-1].size += block.size
            else:
                joined.append(block)
        self.blocks = joined

    def empty(self) -> None:
        """Give back the pieces in which nothing is allocated, as `torch.cuda.empty_cache` does."""
        used = {block.piece for block in self.blocks if not block.free}
        self.reserved -= sum(block.size for block in self.blocks if block.piece not in used)
        self.blocks = [block for block in self.blocks if block.piece in used]


def replay(step: Callable[[], Any], allocator: CachingAllocator) -> None:
    """Run a step on the CPU and allocate what it allocates, in order."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        step()
    result = watched.profiler.kineto_results

    def allocations(events: list[Any]) -> Iterator[tuple[int, int, int]]:
        for event in events:
            if event.tag == torch._C._profiler._EventType.Allocation:
                _, fields = event.typed
                yield event.start_time_ns, fields.ptr, fields.alloc_size
            yield from allocations(event.children)

    for _, pointer, size in sorted(allocations(result.experimental_event_tree())):
        if size > 0:
            allocator.allocate(pointer, size)
        else:
            allocator.release(pointer)
