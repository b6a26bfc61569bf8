"""Matrix products that compiled loops can call: BLAS's ``sgemm``, without Python in between.

PyTorch's own is taken where its library shows it (Intel's, which obeys
``torch.set_num_threads``), and SciPy's elsewhere.  Both are Fortran's: every argument an address,
and matrices by columns, so that an array by rows is read as its transpose.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import no_type_check

import torch
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

from helpers.fast.compiled import part

NAME = "helpers_fast_sgemm"  # under which compiled code, also what is kept on disk, finds it


def _address() -> int:
    if torch.backends.mkl.is_available():
        for path in Path(torch.__file__).parent.glob("lib/*torch_cpu.*"):
            try:
                return ctypes.cast(ctypes.CDLL(str(path)).sgemm_, ctypes.c_void_p).value
            except (OSError, AttributeError):  # not a library, or it keeps sgemm to itself
                continue
    return get_cython_function_address("scipy.linalg.cython_blas", "sgemm")


binding.add_symbol(NAME, _address())


@intrinsic
def sgemm(typing, flip_a, flip_b, m, n, k, a, a_step, b, b_step, old, c, c_step):
    """By columns: C (m, n) = op(A) op(B) + old · C, with addresses and steps as integers."""
    integer, real = types.int64, types.float32

    def make(context, builder, signature, arguments):
        byte = ir.IntType(8).as_pointer()

        def slot(value):
            # An integer of 64 bits may also be read as one of 32: little end first.
            place = cgutils.alloca_once_value(builder, value)
            return builder.bitcast(place, byte)

        flip_a, flip_b, m, n, k, a, a_step, b, b_step, old, c, c_step = arguments
        one = ir.Constant(ir.FloatType(), 1.0)
        first = [slot(value) for value in (flip_a, flip_b, m, n, k, one)]
        a, b, c = (builder.inttoptr(value, byte) for value in (a, b, c))
        rest = [a, slot(a_step), b, slot(b_step), slot(old), c, slot(c_step)]
        kind = ir.FunctionType(ir.VoidType(), [byte] * 13)
        builder.call(cgutils.get_or_insert_function(builder.module, kind, NAME), first + rest)
        return context.get_dummy_value()

    return types.void(*[integer] * 9, real, integer, integer), make


PLAIN, FLIPPED = ord("N"), ord("T")


@part
@no_type_check
def times_transposed(a, b, c):
    """c = a bᵀ."""
    (m, k), n = a.shape, len(b)
    sgemm(FLIPPED, PLAIN, n, m, k, b.ctypes.data, k, a.ctypes.data, k, 0.0, c.ctypes.data, n)


@part
@no_type_check
def times(a, b, c):
    """c = a b."""
    (m, k), n = a.shape, b.shape[1]
    sgemm(PLAIN, PLAIN, n, m, k, b.ctypes.data, n, a.ctypes.data, k, 0.0, c.ctypes.data, n)


@part
@no_type_check
def transposed_times(a, b, c):
    """c = aᵀ b."""
    (k, m), n = a.shape, b.shape[1]
    sgemm(PLAIN, FLIPPED, n, m, k, b.ctypes.data, n, a.ctypes.data, m, 0.0, c.ctypes.data, n)
