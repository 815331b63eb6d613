"""Errors of JAX that are caused by environment variables."""

from __future__ import annotations

import os
from traceback import walk_tb

PREFIX = "JAX_"
FRAMES = "JAX_TRACEBACK_FILTERING"
STARTING = ("jax/_src/config.py", "jax/_src/xla_bridge.py")
"""Modules of JAX that read its environment variables and start its platforms."""


def show_frames_of_jax() -> None:
    """Keep JAX's own frames in tracebacks, for `fault_of_environment`; call this before JAX is imported."""
    os.environ.setdefault(FRAMES, "off")


def fault_of_environment(error: Exception) -> str | None:
    """Return a message that names JAX's environment variables if JAX failed to start; None for any other error."""
    names = [name for name in sorted(os.environ) if name.startswith(PREFIX) and name != FRAMES]
    settings = [f"{name}={os.environ[name]}" for name in names]
    files = [frame.f_code.co_filename.replace(os.sep, "/") for frame, _ in walk_tb(error.__traceback__)]
    if not settings or not files or not files[-1].endswith(STARTING):
        return None
    reason = str(error) or type(error).__name__
    return f"JAX does not start with {', '.join(settings)} in the environment; unset or fix it. JAX reports: {reason}"
