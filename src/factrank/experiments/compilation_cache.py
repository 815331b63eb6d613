"""Persistent compilation cache: programs compiled by one process are reused by the next."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import jax

VARIABLE = "FACTRANK_CACHE"
"""Environment variable with the folder of the cache, or `off`."""

LEAST_SECONDS = 0.2
"""Programs that compile faster than this are not cached."""


def use_compilation_cache() -> None:
    """Enable JAX's compilation cache in the user's cache folder, unless a folder is already set or the cache is off."""
    folder = os.environ.get(VARIABLE, "")
    set_already: str | None = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if folder == "off" or set_already is not None:
        return
    chosen = folder or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    cache = (Path(chosen) if folder else Path(chosen).expanduser() / "factrank") / _processor()
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # works without a cache
    settings = {
        "jax_compilation_cache_dir": str(cache),
        "jax_persistent_cache_min_compile_time_secs": LEAST_SECONDS,
    }
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]


def _processor() -> str:
    """Identify the CPU type: code compiled for one CPU may not run on another that uses this folder."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text(encoding="utf-8", errors="replace").splitlines() if described.exists() else []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    return f"{platform.machine()}-{hashlib.sha256(features.encode()).hexdigest()[:12]}"
