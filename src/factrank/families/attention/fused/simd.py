"""Vectors of eight numbers as a type of compiled code, for processing short rows without scalar loops.

Eight float32 fill one 256-bit register; on wider or narrower registers the compiler joins or splits them. Rows of
matrices that are read by vectors are padded to a multiple of eight. In compiled functions

    load(matrix, row, block), store(matrix, row, block, vector), splat(number), a + b, a - b, a * b,
    multiply_add(a, b, c), maximum(a, b), total(vector), greatest(vector), exponential(vector), logistic(vector)

Fusion and summation order are fixed here instead of being left to the compiler, so results do not depend on inlining.
Functions that use vectors are compiled without `fastmath`, which would also undo the rounding in `exponential`.
Numba's cache does not detect changes in this file: after one, save `fused_cpu.py` too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import factorial, log
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model
from numba.np.arrayobj import make_array

LANES = 8


class Vector(types.Type):  # type: ignore[misc]
    """Eight numbers of one type."""

    def __init__(self, real: Any) -> None:
        self.real = real
        super().__init__(name=f"Vector({real})")


class VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    """Representation of a vector in LLVM."""

    def __init__(self, manager: Any, vector: Any) -> None:
        super().__init__(manager, vector, ir.VectorType(manager.lookup(vector.real).get_value_type(), LANES))


register_model(Vector)(VectorModel)


# ---------------------------------------------------------------- between matrices and vectors


def _address(context: Any, builder: Any, matrix_type: Any, arguments: Any) -> Any:
    """Return a pointer to the vector at a row and block of a matrix."""
    matrix, row, block = arguments[:3]
    real, array = context.get_data_type(matrix_type.dtype), make_array(matrix_type)(context, builder, matrix)
    bytes_before = builder.mul(row, builder.extract_value(array.strides, 0))
    start = builder.gep(builder.bitcast(array.data, cgutils.voidptr_t), [bytes_before])
    place = builder.gep(builder.bitcast(start, real.as_pointer()), [builder.mul(block, block.type(LANES))])
    return builder.bitcast(place, ir.VectorType(real, LANES).as_pointer())


def _load(_typing: Any, matrix: Any, _row: Any, _block: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load(_address(context, builder, matrix, arguments), align=matrix.dtype.bitwidth // 8)

    return Vector(matrix.dtype)(matrix, types.intp, types.intp), generate


def _store(_typing: Any, matrix: Any, _row: Any, _block: Any, vector: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, matrix, arguments)
        builder.store(arguments[3], address, align=matrix.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(matrix, types.intp, types.intp, vector), generate


load: Any = intrinsic(_load)
"""Load entries 8 block to 8 block + 7 of a row."""

store: Any = intrinsic(_store)
"""Store entries 8 block to 8 block + 7 of a row."""


# ---------------------------------------------------------------- arithmetic


def _splat(builder: Any, number: Any) -> Any:
    places = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    one = builder.insert_element(ir.VectorType(number.type, LANES)(ir.Undefined), number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, one, places)


def _arithmetic(operation: Any, instruction: str) -> None:
    """Define an operator for two vectors, or a vector and a number of its type."""

    class Typing(AbstractTemplate):  # type: ignore[misc]
        def generic(self, arguments: Any, _keywords: Any) -> Any:
            vector = next((argument for argument in arguments if isinstance(argument, Vector)), None)
            fits = vector is not None and all(argument in (vector, vector.real) for argument in arguments)
            return vector(*arguments) if vector is not None and fits else None

    def generate(_context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pair = zip(signature.args, arguments, strict=True)
        vectors = [value if isinstance(kind, Vector) else _splat(builder, value) for kind, value in pair]
        return getattr(builder, instruction)(*vectors)

    infer_global(operation)(Typing)
    for kinds in ((Vector, Vector), (Vector, types.Float), (types.Float, Vector)):
        lower_builtin(operation, *kinds)(generate)


def _fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Return the vector a b + c, rounded once."""
    real = "f64" if isinstance(c.type.element, ir.DoubleType) else "f32"
    kind = ir.FunctionType(c.type, [c.type] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}{real}"), [a, b, c])


def _multiply_add(_typing: Any, a: Any, b: Any, c: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        factor = arguments[0] if isinstance(a, Vector) else _splat(builder, arguments[0])
        return _fused(builder, factor, *arguments[1:])

    return c(a, b, c), generate


def _of_one(build: Callable[[Any, Any], Any], result: Callable[[Any], Any]) -> Any:
    """Define a function of one argument, with the type of its result."""

    def function(_typing: Any, argument: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return build(builder, arguments[0])

        return result(argument)(argument), generate

    return intrinsic(function)


def _greater(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _maximum(_typing: Any, a: Any, _b: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _greater(builder, *arguments)

    return a(a, a), generate


def _fold(builder: Any, vector: Any, join: Callable[[Any, Any], Any]) -> Any:
    """Reduce eight numbers to one, by halves."""
    width = LANES
    while width > 1:
        width //= 2
        kind = ir.VectorType(ir.IntType(32), width)
        lower, upper = (ir.Constant(kind, list(range(start, start + width))) for start in (0, width))
        vector = join(builder.shuffle_vector(vector, vector, lower), builder.shuffle_vector(vector, vector, upper))
    return builder.extract_element(vector, ir.IntType(32)(0))


# ---------------------------------------------------------------- functions


def _constant(like: Any, number: float) -> Any:
    return ir.Constant(like.type, [number] * LANES)


def _exponential(builder: Any, x: Any) -> Any:
    """Return 2^n p(r) with n integer, r = x - n log 2 and p a Taylor polynomial of exp, for x <= 0.

    Adding 3/2 2^(bits of the fraction) rounds to an integer and leaves it in the lowest bits. As |r| <= 0.35, the first
    omitted term is below half a unit in the last place. In float32, results up to exp(-60) are flushed to 0: adding
    them to 1 has no effect, and products with them soon become denormal, which is slow.
    """
    double = isinstance(x.type.element, ir.DoubleType)
    fraction, bias, degree, least = (52, 1023, 13, -708.0) if double else (23, 127, 7, -60.0)
    log2 = round(log(2) * 2 ** (fraction - 10)) / 2 ** (fraction - 10)  # so few bits that n log2 is exact

    shift = _constant(x, 1.5 * 2.0**fraction)
    shifted = _fused(builder, x, _constant(x, 1 / log(2)), shift)
    n = builder.fsub(shifted, shift)
    r = _fused(builder, n, _constant(x, -log2), x)
    r = _fused(builder, n, _constant(x, log2 - log(2)), r)
    p = _constant(x, 1 / factorial(degree))
    for k in range(degree - 1, -1, -1):
        p = _fused(builder, p, r, _constant(x, 1 / factorial(k)))
    whole = ir.VectorType(ir.IntType(64 if double else 32), LANES)
    exponent = builder.shl(builder.bitcast(shifted, whole), ir.Constant(whole, [fraction] * LANES))
    power = builder.bitcast(builder.add(exponent, ir.Constant(whole, [bias << fraction] * LANES)), x.type)
    too_small = builder.fcmp_ordered("<", x, _constant(x, least))
    return builder.select(too_small, _constant(x, 0.0), builder.fmul(p, power))


def _logistic(builder: Any, x: Any) -> Any:
    zero, one = _constant(x, 0.0), _constant(x, 1.0)
    positive = builder.fcmp_ordered(">", x, zero)
    small = _exponential(builder, builder.select(positive, builder.fsub(zero, x), x))
    return builder.fdiv(builder.select(positive, one, small), builder.fadd(one, small))


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")

splat = _of_one(_splat, Vector)
"""Return a vector with this number in every entry."""

multiply_add: Any = intrinsic(_multiply_add)
"""Return the vector a b + c, rounded once; a may be a number."""

maximum: Any = intrinsic(_maximum)
"""Return the entrywise maximum of two vectors; if an entry of the first is NaN, the entry of the second."""

total = _of_one(lambda builder, x: _fold(builder, x, builder.fadd), lambda vector: vector.real)
"""Return the sum of the entries."""

greatest = _of_one(lambda builder, x: _fold(builder, x, lambda a, b: _greater(builder, a, b)), lambda x: x.real)
"""Return the largest entry; unspecified if some are NaN."""

exponential = _of_one(_exponential, lambda vector: vector)
"""Return the exponential of entries that are at most 0."""

logistic = _of_one(_logistic, lambda vector: vector)
"""Return 1 / (1 + exp(-x)) of every entry."""
