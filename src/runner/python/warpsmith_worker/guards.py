"""Fresh memory on a GPU that is visibly uninitialised, between guard bytes that are looked at after the call.

`torch.empty` and its kin are let run, and what they made on the GPU is exchanged for a tensor of the same
shape, strides and dtype over a block of ours. It holds the poison of `poison.py`; the block goes on for 4 KiB
before and behind it, so that a store that misses it by that much is seen.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from . import library, poison
from .arenas import GUARD_BYTES
from .cuda_shim import UNINITIALISED, forward, is_size

# Larger ones are left as torch made them: who asks for so much needs the memory.
_LARGEST_GUARDED_BYTES = 32 << 30
# Blocks stay until they are checked; beyond this they are checked at once, and those nobody uses are let go.
_MOST_KEPT_BYTES = 2 << 30
# What `sys.getrefcount` counts of a block whose tensor is gone: our record, and its own argument.
_REFERENCES_OF_DEAD = 2
_MOST_KEPT = 4096

TensorAt = Callable[[int, int, Any], torch.Tensor]
Place = dict[str, Any]


@dataclass(frozen=True)
class Block:
    """One guarded tensor's memory."""

    whole: torch.Tensor
    storage_bytes: int
    maker: str
    shape: list[int]
    dtype: str
    place: Place | None
    """The user's line that made it."""


@dataclass(frozen=True)
class Damage:
    """Bytes that were written around a tensor."""

    block: Block
    before: int
    after: int

    @property
    def message(self) -> str:
        """One sentence for people."""
        count = self.before + self.after
        sides = [word for word, value in (("in front of", self.before), ("behind", self.after)) if value]
        written = f"wrote {count} byte{'s' if count != 1 else ''} {' and '.join(sides)} the memory"
        block = self.block
        return f"{written} of a tensor that `{block.maker}` made (shape {block.shape}, {block.dtype})"


class Guards:
    """All guarded blocks of a call."""

    def __init__(
        self,
        device: torch.device,
        tensor_at: TensorAt,
        synchronize: Callable[[], None],
        user_place: Callable[[], Place | None],
    ) -> None:
        """`tensor_at(address, bytes, owner)` makes a uint8 tensor with a storage of its own."""
        self._device = device
        self._tensor_at = tensor_at
        self._synchronize = synchronize
        self._user_place = user_place
        pattern = bytearray(secrets.token_bytes(GUARD_BYTES))
        self._pattern = torch.frombuffer(pattern, dtype=torch.uint8).to(device)
        self._blocks: list[Block] = []
        self._kept_bytes = 0
        self._damages: list[Damage] = []

    def active(self, *, other_pattern: bool) -> TorchFunctionMode:
        """While user code runs whose values matter."""
        return _Mode(self, other_pattern)

    def exchanged(
        self, handed: list[Any], maker: str, *, other_pattern: bool, again: Callable[[], Any]
    ) -> Any:
        """A guarded tensor for the one that was just made, handed over alone in a list.

        `again` makes another one like it.
        """
        made = handed.pop()
        if type(made) is not torch.Tensor or made.device != self._device or made.layout != torch.strided:
            return made
        if made.is_quantized or made.is_conj() or made.is_neg():
            return made
        try:
            storage_bytes = made.untyped_storage().nbytes()
        except (RuntimeError, NotImplementedError):
            # Batched and functional tensors have no memory of their own.
            return made
        if not 0 < storage_bytes <= _LARGEST_GUARDED_BYTES:
            return made
        geometry = made.dtype, made.size(), made.stride(), made.storage_offset(), made.requires_grad
        # Nobody else holds it: its memory is free before the block is asked for.
        del made
        try:
            guarded = self._guarded(storage_bytes, geometry, maker)
        except torch.OutOfMemoryError:
            self._let_go_of_dead()
            guarded = again()
        if guarded.device == self._device:
            poison.fill_storage(guarded.detach(), other=other_pattern)
        return guarded

    def damages(self) -> list[Damage]:
        """What was found around the tensors of a call; all of them are let go. The GPU must be idle."""
        self._check()
        found, self._damages = self._damages, []
        return found

    def _guarded(self, storage_bytes: int, geometry: tuple[Any, ...], maker: str) -> torch.Tensor:
        dtype, size, strides, offset, requires_grad = geometry
        begin = GUARD_BYTES
        whole = torch.empty(begin + storage_bytes + GUARD_BYTES, dtype=torch.uint8, device=self._device)
        whole[:begin].copy_(self._pattern[:begin])
        whole[begin + storage_bytes :].copy_(self._pattern[:GUARD_BYTES])
        storage = self._tensor_at(whole.data_ptr() + begin, storage_bytes, whole)
        tensor = torch.empty(0, dtype=dtype, device=self._device)
        tensor.set_(storage.untyped_storage(), offset, size, strides)
        if requires_grad:
            tensor.requires_grad_()
        short = str(dtype).removeprefix("torch.")
        self._blocks.append(Block(whole, storage_bytes, maker, list(size), short, self._user_place()))
        self._kept_bytes += whole.numel()
        if self._kept_bytes > _MOST_KEPT_BYTES or len(self._blocks) > _MOST_KEPT:
            self._let_go_of_dead()
        return tensor

    def _let_go_of_dead(self) -> None:
        """Check all blocks now; of those whose tensor is gone nothing more can be learnt."""
        if not self._is_safe_to_wait():
            return
        self._synchronize()
        blocks = self._blocks
        self._check()
        damaged = {id(damage.block) for damage in self._damages}
        alive = [
            block
            for block in blocks
            if sys.getrefcount(block.whole) > _REFERENCES_OF_DEAD and id(block) not in damaged
        ]
        # Where the living are too many, they are not looked at again.
        self._blocks = alive if sum(block.whole.numel() for block in alive) <= _MOST_KEPT_BYTES else []
        self._blocks = self._blocks[-_MOST_KEPT // 2 :]
        self._kept_bytes = sum(block.whole.numel() for block in self._blocks)

    def _is_safe_to_wait(self) -> bool:
        """Nobody may wait while a CUDA graph is being recorded."""
        return self._device.type != "cuda" or not torch.cuda.is_current_stream_capturing()

    def _check(self) -> None:
        blocks, self._blocks, self._kept_bytes = self._blocks, [], 0
        if not blocks:
            return
        # One answer for all of them first: waiting for each would cost more than the comparisons.
        suspects = torch.stack([self._differing(block).any() for block in blocks]).tolist()
        for block, is_damaged in zip(blocks, suspects, strict=True):
            if is_damaged:
                before, after = (int(side.sum()) for side in self._sides(block))
                self._damages.append(Damage(block, before, after))

    def _differing(self, block: Block) -> torch.Tensor:
        return torch.cat(self._sides(block))

    def _sides(self, block: Block) -> tuple[torch.Tensor, torch.Tensor]:
        before = block.whole[: -(block.storage_bytes + GUARD_BYTES)]
        after = block.whole[-GUARD_BYTES:]
        return before != self._pattern[: before.numel()], after != self._pattern[:GUARD_BYTES]


class _Mode(TorchFunctionMode):
    """Exchanges what functions return that hand out uninitialised memory."""

    def __init__(self, guards: Guards, other_pattern: bool) -> None:
        super().__init__()
        self.guards = guards
        self.other_pattern = other_pattern

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        library.note(func)
        result = forward(func, args, kwargs)
        if not (func in UNINITIALISED or (func is torch.Tensor.new and is_size(args[1:]))):
            return result
        if kwargs.get("out") is not None:
            return result
        name = func.__name__
        handed = [result]
        del result
        return self.guards.exchanged(
            handed,
            f"torch.{name}" if hasattr(torch, name) else name,
            other_pattern=self.other_pattern,
            again=lambda: forward(func, args, kwargs),
        )
