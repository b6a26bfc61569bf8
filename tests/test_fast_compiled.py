"""What the fast step is compiled from: products, the optimiser, and when code is made anew."""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from numba.core.dispatcher import Dispatcher

from helpers.fast import adamw, attention, blas, compiled, kernels, passes


def dispatchers() -> dict[str, Dispatcher]:
    modules = (adamw, attention, blas, kernels, passes)
    found = {name: value for module in modules for name, value in vars(module).items()}
    return {name: value for name, value in found.items() if isinstance(value, Dispatcher)}


def test_what_python_calls_holds_copies_of_all_that_it_calls():
    """Else code that was compiled just now and code from the disk would round differently."""
    parts = {n for n, f in dispatchers().items() if f.targetoptions.get("forceinline")}
    assert {"norm_back", "times", "normalise_back"} <= parts
    for name, function in dispatchers().items():
        called = set(function.py_func.__code__.co_names) & set(dispatchers())
        assert called <= parts, name


def test_a_change_in_any_file_compiles_anew(tmp_path):
    """``backward`` is compiled with the loops of another file in it."""
    shutil.copytree(Path(compiled.__file__).parent, tmp_path / "fast")
    lines = "import sys; from fast import compiled; print(compiled._stamp())"
    places = {"cwd": tmp_path, "capture_output": True, "text": True, "check": True}
    (tmp_path / "fast" / "__init__.py").write_text("")
    stamps = []
    for _ in range(2):
        stamps.append(subprocess.run([sys.executable, "-c", lines], **places).stdout)
        with (tmp_path / "fast" / "kernels.py").open("a") as file:
            file.write("# changed\n")
    assert stamps[0] != stamps[1]
    index = passes.backward._cache._cache_file
    assert index._source_stamp == compiled._stamp()


def foreign(address: int):
    """``sgemm`` at that address, called by hand: a b by rows."""
    sgemm = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(address)

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        (m, k), n = a.shape, b.shape[1]
        c = np.full((m, n), np.nan, np.float32)
        sizes = [ctypes.c_int64(x) for x in (n, m, k, n, k, n)]
        n_, m_, k_, b_step, a_step, c_step = (ctypes.addressof(x) for x in sizes)
        one, none = np.float32([1]), np.float32([0])
        plain = ctypes.create_string_buffer(b"N")
        flip = ctypes.addressof(plain)
        first = (flip, flip, n_, m_, k_, one.ctypes.data, b.ctypes.data, b_step)
        sgemm(*first, a.ctypes.data, a_step, none.ctypes.data, c.ctypes.data, c_step)
        return c

    return product


@pytest.mark.parametrize("mkl", [True, False])
def test_both_libraries_multiply(monkeypatch, mkl):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((7, 5), (5, 3)))
    if not mkl:
        monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    np.testing.assert_allclose(foreign(blas._address())(a, b), a @ b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (7, 5, 3), (64, 128, 33)])
def test_products(m, k, n):
    rng = np.random.default_rng(m)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    close = {"rtol": 1e-4, "atol": 1e-5}
    c = np.full((m, n), np.nan, np.float32)
    blas.times(a, b, c)
    np.testing.assert_allclose(c, a @ b, **close)
    c[:] = np.nan
    blas.times_transposed(a, b.T.copy(), c)
    np.testing.assert_allclose(c, a @ b, **close)
    c[:] = np.nan
    blas.transposed_times(a.T.copy(), b, c)
    np.testing.assert_allclose(c, a @ b, **close)


@pytest.mark.parametrize(("eps", "weight_decay"), [(1e-8, 1.0), (1e-3, 0.0)])
def test_the_optimiser_alone_is_pytorch_s(eps, weight_decay):
    draw = torch.Generator().manual_seed(0)
    ours = torch.randn(1001, generator=draw)
    theirs, grad = ours.clone().requires_grad_(), torch.empty(1001)
    optimizer = adamw.AdamW(ours, grad, (0.9, 0.98), eps, weight_decay)
    theirs.grad = grad
    reference = torch.optim.AdamW([theirs], 1.0, (0.9, 0.98), eps, weight_decay)
    for step in range(30):
        grad.copy_(torch.randn(1001, generator=draw) * 10.0 ** (step % 5 - 3))
        optimizer.step(1e-3 * (step + 1))
        reference.param_groups[0]["lr"] = 1e-3 * (step + 1)
        reference.step()
    torch.testing.assert_close(ours, theirs.detach(), atol=1e-6, rtol=1e-5)
    state = reference.state[theirs]
    for name, value in optimizer.state().items():
        torch.testing.assert_close(value, state[name], atol=1e-7, rtol=1e-5)
