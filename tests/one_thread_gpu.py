"""A GPU of one thread: what the GPU backend asks of CuPy, with the kernel compiled for this CPU by a C++ compiler.

It runs the very code of fused_gpu_kernel and fused_gpu.py, one model after the other, in one thread: all of it but the
working together of threads. Only models whose fibers are read by one lane (at most 32 values) fit it.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

HEADER = Path(__file__).with_name("one_thread_gpu.h")
COMPILER = shutil.which("g++") or shutil.which("clang++")


class OnDevice(np.ndarray):
    """An array with CuPy's way back to the host."""

    def get(self) -> np.ndarray:
        return np.array(self)


class Stream(nullcontext):
    def __init__(self, **_: Any) -> None:
        super().__init__()


class Event:
    done = True

    def __init__(self, **_: Any) -> None: ...

    def record(self) -> None: ...

    def synchronize(self) -> None: ...


class Kernel:
    max_dynamic_shared_size_bytes = 0

    def __init__(self, library: Path) -> None:
        self._function = ctypes.CDLL(str(library)).train

    def __call__(self, grid: tuple[int], block: tuple[int], args: tuple[Any, ...], shared_mem: int = 0) -> None:
        self._function(*map(_as_c, args))


def _as_c(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    return ctypes.c_longlong(int(argument)) if argument.dtype == np.int64 else ctypes.c_int(int(argument))


def one_thread_cupy(folder: Path, shared_bytes: int) -> ModuleType:
    """A stand-in for the module `cupy`; arenas always lie outside shared memory, whatever their plan says."""

    def compiled(code: str, options: tuple[str, ...]) -> SimpleNamespace:
        settings = [option for option in options if option.startswith("-D") and "IN_SHARED" not in option]
        name = hashlib.sha256((code + HEADER.read_text() + " ".join(settings)).encode()).hexdigest()[:16]
        source, library = folder / f"{name}.cpp", folder / f"{name}.so"
        if not library.exists():
            source.write_text(code)
            flags = ["-O1", "-std=c++17", "-shared", "-fPIC", "-w", "-DIN_SHARED=0", "-include", str(HEADER)]
            subprocess.run([str(COMPILER), *flags, *settings, str(source), "-o", str(library)], check=True)
        return SimpleNamespace(get_function=lambda _: Kernel(library))

    attributes = {"MaxSharedMemoryPerBlockOptin": shared_bytes, "MultiProcessorCount": 1}
    device = SimpleNamespace(attributes=attributes)

    def array(values: Any) -> OnDevice:
        return np.array(values).view(OnDevice)

    def enough(size: Any, dtype: Any) -> OnDevice:
        """Also where a launch in shared memory asks for none: this device has only the other kind."""
        spare = dtype is np.float32 and size == 1
        return np.zeros(shared_bytes if spare else size, dtype=dtype).view(OnDevice)

    cupy = ModuleType("cupy")
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, getDeviceProperties=lambda _: {"name": b"one thread"})
    parts = {
        "Stream": Stream,
        "Event": Event,
        "get_elapsed_time": lambda *_: 0.0,
        "Device": lambda: device,
        "runtime": runtime,
    }
    cupy.__dict__.update(asarray=array, empty=enough, zeros=enough, RawModule=compiled)
    cupy.__dict__.update(cuda=SimpleNamespace(**parts, nvrtc=SimpleNamespace(getVersion=lambda: (0, 0))))
    return cupy
