"""Machine operations that numba lacks: bits of a float, a maximum that vectorises, 32 comparisons, a prefetch."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types

intrinsic: Any = extending.intrinsic  # its type stub counts the typing context as an argument

LANE_VALUES = 32  # compared together; the bits of a uint32


@intrinsic
def as_float(_context: Any, _bits: Any) -> Any:
    """Read the bits of an int32 as a float32."""

    def codegen(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen


@intrinsic
def as_bits(_context: Any, _value: Any) -> Any:
    """Read the bits of a float32 as an int32."""

    def codegen(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), codegen


@intrinsic
def larger(_context: Any, _a: Any, _b: Any) -> Any:
    """Return the larger of two float32, in a form that LLVM can vectorise as a reduction, unlike Python's max."""

    def codegen(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        single = ir.FloatType()
        maximum = builder.module.declare_intrinsic("llvm.maxnum", [single], ir.FunctionType(single, [single, single]))
        return builder.call(maximum, args, fastmath=("nnan", "nsz", "reassoc"))

    return types.float32(types.float32, types.float32), codegen


@intrinsic
def over_mask(_context: Any, values: Any, _start: Any, _bar: Any) -> Any:
    """Compare 32 neighbouring values with the bar; bit i of the uint32 is set where values[start + i] > bar."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        array = context.make_array(values)(context, builder, args[0])
        lanes = ir.VectorType(ir.FloatType(), LANE_VALUES)
        address = builder.bitcast(builder.gep(array.data, [args[1]]), lanes.as_pointer())
        block = builder.load(address, align=4, typ=lanes)
        bars = builder.insert_element(ir.Constant(lanes, ir.Undefined), args[2], ir.Constant(ir.IntType(32), 0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANE_VALUES), [0] * LANE_VALUES)
        bars = builder.shuffle_vector(bars, ir.Constant(lanes, ir.Undefined), everywhere)
        return builder.bitcast(builder.fcmp_ordered(">", block, bars), ir.IntType(LANE_VALUES))

    return types.uint32(values, types.int64, types.float32), codegen


@intrinsic
def lowest_bit(_context: Any, _mask: Any) -> Any:
    """Return the position of the lowest set bit of a nonzero uint32."""

    def codegen(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint32(types.uint32), codegen


@intrinsic
def fetch(_context: Any, values: Any, _place: Any) -> Any:
    """Prefetch the cache line that holds values[place] into the second-level cache.

    A place past the end does no harm: nothing is read.
    """

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        array = context.make_array(values)(context, builder, args[0])
        number, address = ir.IntType(32), ir.IntType(8).as_pointer()
        place = builder.bitcast(builder.gep(array.data, [args[1]]), address)
        kind = ir.FunctionType(ir.VoidType(), [address, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [address], kind)
        builder.call(prefetch, [place, number(0), number(2), number(1)])  # for reading, into L2, data
        return context.get_dummy_value()

    return types.void(values, types.int64), codegen
