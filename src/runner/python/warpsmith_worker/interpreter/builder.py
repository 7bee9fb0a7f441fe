"""The builder behind Triton's interpreter, with right numerics and checks.

Subclasses the stock builder: what is not overridden here works as Triton ships it. Signatures take `*rest`
where Triton versions differ.
"""
# ruff: noqa: A002 - names and signatures of these methods are Triton's

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import interpreter as _native
from triton._C.libtriton import ir as _ir
from triton.runtime import interpreter as stock

from . import dots, integers, libdevice
from .checks import Base, MemoryChecker
from .errors import DeviceAssertFailed, InterpreterUnsupported
from .handles import Handle, element_bytes, from_float, np_dtype, to_float32
from .numerics import float32_to_bfloat16, saturating_float_to_int
from .overflow import Origin, Overflow, describe, union, wrapped_lanes
from .targets import cuda_like, min_dot_size

_BITWISE = frozenset({np.bitwise_and, np.bitwise_or, np.bitwise_xor})


class CheckedBuilder(stock.InterpreterBuilder):
    """One per process. `checker` is set while a launch runs."""

    def __init__(self) -> None:
        super().__init__()
        self.checker: MemoryChecker | None = None
        self.record_finding: Callable[[str, str], None] = _ignore
        self.locate: Callable[[], tuple[Any, list[Any]]] = lambda: (None, [])
        self.record_tf32: Callable[[], None] = lambda: None
        self.overflow_armed = False
        self._descriptor_bases: tuple[Base, ...] | None = None
        self.options = cuda_like(self.options)
        self.codegen_fns["min_dot_size"] = min_dot_size()

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("create_", "get_")):
            raise InterpreterUnsupported(f"Triton's interpreter has no `{name}`")
        raise AttributeError(name)

    # Marks

    def _carry(self, result: Any, source: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
        if source.bases is not None:
            result.bases = source.bases
        if source.overflow is not None:
            result.overflow = source.overflow.mapped(change)
        return result

    def _carry_union(self, result: Any, *sources: Any) -> Any:
        mark = None
        for source in sources:
            if source.overflow is not None:
                mark = union(mark, source.overflow)
        if mark is not None:
            result.overflow = mark
        return result

    # Arithmetic

    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        dtype = lhs.dtype.scalar
        if dtype.name == "bf16" and op not in _BITWISE:
            values = op(to_float32(lhs), to_float32(rhs))
            if values.dtype == np.bool_:
                return Handle(values, tl.int1)
            return Handle(float32_to_bfloat16(values), dtype)
        result = super().binary_op(lhs, rhs, op)
        if lhs.overflow is not None or rhs.overflow is not None:
            self._carry_union(result, lhs, rhs)
        return result

    def unary_op(self, arg: Any, op: Any) -> Any:
        if arg.dtype.scalar.name == "bf16":
            return Handle(float32_to_bfloat16(op(to_float32(arg))), arg.dtype.scalar)
        return self._carry_union(super().unary_op(arg, op), arg)

    def ternary_op(self, lhs: Any, rhs: Any, other: Any, op: Any) -> Any:
        if other.dtype.scalar.name == "bf16" and op is not np.where:
            values = op(to_float32(lhs), to_float32(rhs), to_float32(other))
            return Handle(float32_to_bfloat16(values), other.dtype.scalar)
        return super().ternary_op(lhs, rhs, other, op)

    def _checked_int(self, operation: str, lhs: Any, rhs: Any, compute: Callable[[Any, Any], Any]) -> Any:
        armed, self.overflow_armed = self.overflow_armed, False
        result = compute(lhs, rhs)
        if armed:
            lanes = wrapped_lanes(operation, lhs.data, rhs.data)
            if lanes is not None:
                result.overflow = union(self._new_overflow(operation, lhs, rhs, lanes), result.overflow)
        return result

    def _new_overflow(self, operation: str, lhs: Any, rhs: Any, lanes: np.ndarray) -> Overflow:
        place, called_from = self.locate()
        program = self.checker.program if self.checker is not None else (0, 0, 0)
        message = describe(operation, lhs.data, rhs.data, lanes, program)
        callers = tuple((caller["file"], caller["line"]) for caller in called_from)
        return Overflow(lanes, Origin(place, callers, message))

    def create_add(self, lhs: Any, rhs: Any) -> Any:
        return self._checked_int("add", lhs, rhs, super().create_add)

    def create_sub(self, lhs: Any, rhs: Any) -> Any:
        return self._checked_int("sub", lhs, rhs, super().create_sub)

    def create_mul(self, lhs: Any, rhs: Any) -> Any:
        return self._checked_int("mul", lhs, rhs, super().create_mul)

    def create_idiv(self, lhs: Any, rhs: Any) -> Any:
        return self._carry_union(super().create_idiv(lhs, rhs), lhs, rhs)

    def create_umulhi(self, lhs: Any, rhs: Any) -> Any:
        return Handle(integers.high_half_of_product(lhs.data, rhs.data), lhs.dtype.scalar)

    def create_ashr(self, lhs: Any, rhs: Any) -> Any:
        result = Handle(integers.arithmetic_shift_right(lhs.data, rhs.data), lhs.dtype.scalar)
        return self._carry_union(result, lhs, rhs)

    def create_histogram(self, data: Any, bins: int, mask: Any) -> Any:
        lanes = None if mask is None else mask.data
        return Handle(integers.histogram(data.data, bins, lanes), tl.int32)

    def get_all_ones_value(self, type: Any) -> Any:
        return Handle(integers.all_ones(np_dtype(type)), type.scalar)

    def get_bf16(self, value: float) -> Any:
        return Handle(float32_to_bfloat16(np.array([value], np.float32)), tl.bfloat16)

    def create_fneg(self, arg: Any) -> Any:
        return self.unary_op(arg, np.negative)

    def create_clampf(self, arg: Any, lo: Any, hi: Any, propagate_nans: Any) -> Any:
        if propagate_nans == _ir.PROPAGATE_NAN.NONE:
            return self.binary_op(self.binary_op(arg, lo, np.fmax), hi, np.fmin)
        return self.ternary_op(arg, lo, hi, np.clip)

    def create_minnumf(self, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, np.fmin)

    def create_maxnumf(self, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, np.fmax)

    def create_select(self, cond: Any, lhs: Any, rhs: Any) -> Any:
        result = Handle(np.where(cond.data, lhs.data, rhs.data), rhs.dtype.scalar)
        if lhs.bases is not None and rhs.bases is not None:
            result.bases = tuple(dict.fromkeys(lhs.bases + rhs.bases))
        if lhs.overflow is not None or rhs.overflow is not None or cond.overflow is not None:
            lanes = np.zeros(result.data.shape, np.bool_)
            chosen = cond.data if cond.overflow is None else np.ones_like(cond.data)
            if lhs.overflow is not None:
                lanes = lanes | (chosen & lhs.overflow.lanes)
            if rhs.overflow is not None:
                lanes = lanes | (~cond.data & rhs.overflow.lanes)
            if cond.overflow is not None:
                lanes = lanes | cond.overflow.lanes
            origin = next(h.overflow.origin for h in (lhs, rhs, cond) if h.overflow is not None)
            result.overflow = Overflow(lanes, origin)
        return result

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        dtype = z.dtype.scalar
        if dtype.name in ("bf16", "fp16"):
            exact = to_float32(x).astype(np.float64) * to_float32(y) + to_float32(z)
            return Handle(from_float(exact, dtype), dtype)
        if hasattr(_native, "fma_fp32"):
            return super().create_fma(x, y, z)
        wide = x.data.astype(np.float64) * y.data + z.data
        return Handle(wide.astype(z.data.dtype), dtype)

    def create_rsqrt(self, arg: Any) -> Any:
        return self.unary_op(arg, lambda values: (1 / np.sqrt(values)).astype(values.dtype))

    def create_erf(self, arg: Any) -> Any:
        return self.unary_op(arg, libdevice.erf)

    # Casts

    def cast_impl(self, src: Any, dst_type: tl.dtype) -> Any:
        source, target = src.dtype.scalar, dst_type.scalar
        if source.is_floating() and target.is_floating():
            values = src.data if source.name in ("fp32", "fp64") else to_float32(src)
            return Handle(from_float(values, target), target)
        if source.is_floating() and target.is_int() and target.name != "int1":
            values = src.data if source.name in ("fp32", "fp64") else to_float32(src)
            return Handle(saturating_float_to_int(values, np_dtype(target)), target)
        if target.is_floating() and (target.name == "bf16" or target.name.startswith("fp8")):
            return Handle(from_float(src.data.astype(np.float32), target), target)
        return self._carry(super().cast_impl(src, dst_type), src, lambda lanes: lanes)

    def create_fp_to_fp(self, src: Any, dst_type: tl.dtype, rounding_mode: Any) -> Any:
        source, target = src.dtype.scalar, dst_type.scalar
        values = src.data if source.name in ("fp32", "fp64") else to_float32(src)
        return Handle(from_float(values, target, rounding_mode == _ir.ROUNDING_MODE.RTZ), target)

    def create_bitcast(self, src: Any, dst_type: tl.dtype) -> Any:
        result = super().create_bitcast(src, dst_type)
        if dst_type.scalar.is_ptr() and src.dtype.scalar.is_ptr():
            result.bases = src.bases
        if src.overflow is not None:
            result.overflow = src.overflow
        return result

    # Shapes

    def create_reshape(self, arg: Any, shape: Any, allow_reorder: bool) -> Any:
        shape = tuple(shape)
        result = super().create_reshape(arg, shape, allow_reorder)
        return self._carry(result, arg, lambda lanes: np.broadcast_to(lanes, arg.data.shape).reshape(shape))

    def create_trans(self, arg: Any, perm: Any) -> Any:
        perm = [tl.core._unwrap_if_constexpr(axis) for axis in perm]
        return self._carry(super().create_trans(arg, perm), arg, lambda lanes: np.transpose(lanes, perm))

    def create_expand_dims(self, arg: Any, axis: int) -> Any:
        result = super().create_expand_dims(arg, axis)
        return self._carry(result, arg, lambda lanes: np.expand_dims(lanes, axis))

    def create_broadcast(self, arg: Any, shape: Any) -> Any:
        result = super().create_broadcast(arg, shape)
        return self._carry(result, arg, lambda lanes: np.broadcast_to(lanes, tuple(shape)))

    def create_splat(self, ret_ty: Any, arg: Any) -> Any:
        data = np.full(ret_ty.shape, arg.data.reshape(-1)[0], dtype=arg.data.dtype)
        return self._carry(
            Handle(data, arg.dtype.scalar), arg, lambda lanes: np.full(data.shape, lanes.any(), np.bool_)
        )

    def create_unsplat(self, arg: Any) -> Any:
        result = Handle(np.full((1,), arg.data.reshape(-1)[0], dtype=arg.data.dtype), arg.dtype.scalar)
        return self._carry(result, arg, lambda lanes: lanes.reshape(-1)[:1])

    def create_join(self, lhs: Any, rhs: Any) -> Any:
        result = super().create_join(lhs, rhs)
        if lhs.bases is not None and rhs.bases is not None:
            result.bases = tuple(dict.fromkeys(lhs.bases + rhs.bases))
        return result

    def create_split(self, val: Any) -> Any:
        parts = super().create_split(val)
        for part in parts:
            part.bases = val.bases
        return parts

    def create_cat(self, lhs: Any, rhs: Any) -> Any:
        result = super().create_cat(lhs, rhs)
        if lhs.bases is not None and rhs.bases is not None:
            result.bases = tuple(dict.fromkeys(lhs.bases + rhs.bases))
        return result

    def create_gather(self, src: Any, indices: Any, axis: int) -> Any:
        result = super().create_gather(src, indices, axis)
        result.bases = src.bases
        return result

    def create_addptr(self, ptr: Any, offset: Any) -> Any:
        result = super().create_addptr(ptr, offset)
        result.bases = ptr.bases
        if ptr.overflow is not None or offset.overflow is not None:
            self._carry_union(result, ptr, offset)
        return result

    # Memory

    def create_load(self, ptr: Any, *rest: Any, **named: Any) -> Any:
        return self._load(ptr, None, None, _is_volatile(rest, named))

    def create_masked_load(self, ptrs: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        # Triton 3.6 hands a bare array here for block pointers.
        lanes = mask if isinstance(mask, np.ndarray) else mask.data
        return self._load(ptrs, lanes, other, _is_volatile(rest, named))

    def create_store(self, ptr: Any, val: Any, *rest: Any, **named: Any) -> None:
        self._store(ptr, val, None)

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> None:
        self._store(ptrs, value, mask if isinstance(mask, np.ndarray) else mask.data)

    def _load(self, ptrs: Any, lanes: np.ndarray | None, other: Any, synchronising: bool) -> Any:
        dtype = ptrs.get_element_ty()
        held = np_dtype(dtype)
        checker = self._checker()
        bases = self._descriptor_bases if self._descriptor_bases is not None else ptrs.bases
        lanes = checker.load(ptrs.data, lanes, element_bytes(ptrs), bases, ptrs.overflow, synchronising)
        shape = ptrs.data.shape
        fallback = np.zeros(shape, held) if other is None else other.data
        mask = np.ones(shape, np.bool_) if lanes is None else lanes
        return Handle(_native.load(ptrs.data, mask, fallback, held), dtype)

    def _store(self, ptrs: Any, value: Any, lanes: np.ndarray | None) -> None:
        bases = self._descriptor_bases if self._descriptor_bases is not None else ptrs.bases
        self._checker().store(ptrs.data, value.data, lanes, element_bytes(ptrs), bases, ptrs.overflow)

    def _checker(self) -> MemoryChecker:
        if self.checker is None:
            raise InterpreterUnsupported("memory was accessed outside a launch")
        return self.checker

    def create_atomic_load(self, ptr: Any, mask: Any, sem: Any, scope: Any) -> Any:
        return self._load(ptr, mask.data, None, True)

    def create_atomic_store(self, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> None:
        def perform(lanes: np.ndarray) -> np.ndarray:
            _native.store(ptr.data, val.data, lanes)
            return val.data

        self._atomic(ptr, mask.data, perform, reads=False)

    def create_atomic_rmw(self, rmwOp: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        dtype = val.dtype.scalar
        by_hand = rmwOp == _ir.ATOMIC_OP.FADD and dtype.name in ("bf16", "fp16")

        def perform(lanes: np.ndarray) -> np.ndarray:
            if by_hand:
                return self._add_narrow_floats(ptr, val, lanes)
            native_op = self.ir_rmw_op_to_interpreter_rmw_op.get(rmwOp)
            native_sem = self.ir_sem_to_interpreter_sem.get(sem)
            if native_op is None or native_sem is None:
                raise InterpreterUnsupported(f"atomic operation {rmwOp} with ordering {sem}")
            # An exchange moves bits, whatever they mean; the native one knows integers only.
            is_exchange = rmwOp == _ir.ATOMIC_OP.XCHG
            data = val.data.view(f"u{val.data.itemsize}") if is_exchange else val.data
            old = _native.atomic_rmw(native_op, ptr.data, data, lanes, native_sem)
            return old.view(val.data.dtype) if is_exchange else old

        old = self._atomic(ptr, mask.data, perform, reads=rmwOp != _ir.ATOMIC_OP.XCHG)
        return Handle(old, dtype)

    def _add_narrow_floats(self, ptr: Any, val: Any, lanes: np.ndarray) -> np.ndarray:
        """float16 and bfloat16: one rounding an addition, lanes that share an address one after another."""
        dtype = val.dtype.scalar
        old = np.zeros(ptr.data.shape, val.data.dtype)
        addends = np.broadcast_to(to_float32(val), ptr.data.shape)
        pending = np.broadcast_to(lanes, ptr.data.shape).copy()
        while pending.any():
            positions = np.flatnonzero(pending)
            _, first = np.unique(ptr.data.ravel()[positions], return_index=True)
            turn = np.zeros(ptr.data.size, np.bool_)
            turn[positions[first]] = True
            turn = turn.reshape(ptr.data.shape)
            now = _native.load(ptr.data, turn, old, old.dtype)
            total = to_float32(Handle(now, dtype)) + addends
            _native.store(ptr.data, from_float(total, dtype), turn)
            old = np.where(turn, now, old)
            pending &= ~turn
        return old

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        native_sem = self.ir_sem_to_interpreter_sem.get(sem)
        if native_sem is None:
            raise InterpreterUnsupported(f"atomic_cas with ordering {sem}")

        def perform(lanes: np.ndarray) -> np.ndarray:
            expected = np.broadcast_to(cmp.data, ptr.data.shape)
            desired = np.broadcast_to(val.data, ptr.data.shape)
            if lanes.all():
                return _native.atomic_cas(ptr.data, expected, desired, native_sem)
            old = expected.copy()
            old[lanes] = _native.atomic_cas(ptr.data[lanes], expected[lanes], desired[lanes], native_sem)
            return old

        return Handle(self._atomic(ptr, None, perform, conditional=True), cmp.dtype.scalar)

    def create_atomic_poll(self, ptr: Any, expected: Any, timeout_ns: Any, sem: Any, scope: Any) -> Any:
        value = self._load(ptr, None, None, True)
        matched = value.data == expected.data
        if not matched.all() and not isinstance(timeout_ns, Handle):
            raise InterpreterUnsupported(
                f"program {self._checker().program} waits for another program; the interpreter runs programs "
                "one after another"
            )
        return Handle(matched, tl.int1)

    def _atomic(
        self,
        ptr: Any,
        mask: np.ndarray | None,
        perform: Callable[[np.ndarray], np.ndarray],
        reads: bool = True,
        conditional: bool = False,
    ) -> np.ndarray:
        size = element_bytes(ptr)
        return self._checker().atomic(
            ptr.data, mask, size, ptr.bases, ptr.overflow, perform, reads, conditional
        )

    # Block pointers (up to Triton 3.8) and tensor descriptors

    def _through(self, base: Any, act: Callable[[], Any]) -> Any:
        # The stock code rebuilds pointers from the base's number, so the tensor has to be told apart here.
        self._descriptor_bases = base.bases
        try:
            return act()
        finally:
            self._descriptor_bases = None

    def _padded_load(self, ptrs: Any, mask: Any, padding: Any) -> Any:
        lanes = mask if isinstance(mask, np.ndarray) else mask.data
        other = None
        if padding == _ir.PADDING_OPTION.PAD_NAN:
            dtype = ptrs.get_element_ty()
            nan = from_float(np.full(ptrs.data.shape, np.nan, np.float32), dtype)
            other = Handle(nan, dtype)
        return self._load(ptrs, lanes, other, False)

    def create_tensor_pointer_load(self, ptr: Any, boundary_check: Any, padding: Any, *rest: Any) -> Any:
        ptrs, mask = ptr.materialize_pointers(boundary_check)
        return self._through(ptr.base, lambda: self._padded_load(ptrs, mask, padding))

    def create_tensor_pointer_store(self, ptr: Any, value: Any, boundary_check: Any, *rest: Any) -> None:
        ptrs, mask = ptr.materialize_pointers(boundary_check)
        lanes = mask if isinstance(mask, np.ndarray) else mask.data
        self._through(ptr.base, lambda: self._store(ptrs, value, lanes))

    def create_descriptor_load(self, desc: Any, indices: Any, *rest: Any, **named: Any) -> Any:
        ptrs, mask = desc.materialize_pointers(indices)
        result = self._through(desc.base, lambda: self._padded_load(ptrs, mask, desc.padding))
        if getattr(desc, "round_f32_to_tf32", False) and result.dtype.scalar.name == "fp32":
            return Handle(dots.round_to_tf32(result.data), result.dtype)
        return result

    def create_descriptor_store(self, desc: Any, value: Any, indices: Any, *rest: Any, **named: Any) -> None:
        ptrs, mask = desc.materialize_pointers(indices)
        lanes = mask if isinstance(mask, np.ndarray) else mask.data
        self._through(desc.base, lambda: self._store(ptrs, value, lanes))

    def create_descriptor_gather(self, desc: Any, x_offsets: Any, y_offset: Any, type: Any) -> Any:
        rows = [
            self.create_descriptor_load(desc, [Handle(np.array([row]), tl.int32), y_offset]).data
            for row in x_offsets.data
        ]
        return Handle(np.concatenate(rows), desc.base.dtype.element_ty)

    def create_descriptor_scatter(self, desc: Any, value: Any, x_offsets: Any, y_offset: Any) -> None:
        for position, row in enumerate(x_offsets.data):
            part = Handle(value.data[position : position + 1], value.dtype)
            self.create_descriptor_store(desc, part, [Handle(np.array([row]), tl.int32), y_offset])

    # Products

    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        if a.dtype.scalar.name == "fp32" and input_precision == _ir.INPUT_PRECISION.TF32:
            self.record_tf32()
        return Handle(dots.dot(a, b, d, input_precision), d.dtype.scalar)

    def create_dot_scaled(self, lhs: Any, lhs_scale: Any, lhs_format: Any, rhs: Any, *rest: Any) -> Any:
        stock_dot = getattr(super(), "create_dot_scaled", None)
        if stock_dot is None or "bf16" in (lhs.dtype.scalar.name, rhs.dtype.scalar.name):
            raise InterpreterUnsupported("`tl.dot_scaled` with these operands")
        return stock_dot(lhs, lhs_scale, lhs_format, rhs, *rest)

    # Effects

    def create_inline_asm(self, *rest: Any, **named: Any) -> Any:
        raise InterpreterUnsupported("inline assembly cannot be run without a GPU", "inline-asm")

    def create_extern_elementwise(
        self, libName: str, libPath: str, symbol: str, argList: Any, retType: Any, isPure: bool
    ) -> Any:
        arguments = [to_float32(arg) if arg.dtype.scalar.name == "bf16" else arg.data for arg in argList]
        result = libdevice.call(symbol, arguments)
        return Handle(from_float(result, retType) if retType.scalar.is_floating() else result, retType.scalar)

    def create_assert(self, condition: Any, message: str) -> None:
        if condition.data.all():
            return
        failed = int((~condition.data).sum())
        lanes = f" ({failed} of {condition.data.size} lanes)" if condition.data.size > 1 else ""
        text = f": {message}" if message else ""
        sentence = f"device assertion failed{lanes} in program {self._checker().program}{text}"
        self.record_finding("device-assert", sentence)
        raise DeviceAssertFailed(sentence)

    def create_assume(self, condition: Any) -> None:
        if not condition.data.all():
            sentence = f"`tl.assume` is false in program {self._checker().program}: the GPU may do anything"
            self.record_finding("device-assert", sentence)
            raise DeviceAssertFailed(sentence)

    def create_grid_dependency_wait(self) -> None:
        """Launches run one after another here, so there is nothing to wait for."""

    def create_grid_dependency_launch_dependents(self) -> None:
        """As `create_grid_dependency_wait`."""


def _is_volatile(rest: tuple[Any, ...], named: dict[str, Any]) -> bool:
    return bool(named.get("is_volatile", rest[-1] if rest else False))


def _ignore(*_arguments: Any) -> None:
    """No launch is running."""
