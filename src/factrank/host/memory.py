"""Memory available to this process, and checks that fail before an allocation is attempted."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from factrank.errors import InputError

IF_UNKNOWN = 2**34
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")

COMPILER_ROOM = 3 * 2**30
"""Address space that JAX and numba need to start; with less, their libraries abort without a message."""


def memory_room() -> int:
    """Return the memory that this process may use, in bytes: physical memory or a lower limit set for it."""
    return min([_physical(), *_limits()])


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Raise `InputError` if an allocation cannot fit into memory.

    Arguments:
        needed: Size in bytes.
        what: Subject of the message, such as "8 facts".
        remedy: What the user can do instead.
    """
    room = memory_room()
    if needed > room:
        raise InputError(
            f"{what} would take {needed / 2**30:,.1f} GiB of memory, this machine has {room / 2**30:,.1f}: {remedy}"
        )


def require_compilers_fit() -> None:
    """Raise `InputError` if the address-space limit is too low for JAX and numba to start."""
    limit = _address_space()
    if limit is not None and limit < COMPILER_ROOM:
        raise InputError(
            f"this command compiles code and needs {COMPILER_ROOM / 2**30:g} GiB of address space; "
            f"the limit is {limit / 2**30:,.1f} GiB: raise it (ulimit -v)"
        )


def _physical() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return IF_UNKNOWN


def _limits() -> list[int]:
    """Return the limits of the address space and of the container that are set."""
    limits = [_address_space()]
    with suppress(OSError, ValueError):  # not in a container, or its limit is "max"
        limits.append(int(CONTAINER_LIMIT.read_text(encoding="ascii")))
    return [limit for limit in limits if limit is not None]


def _address_space() -> int | None:
    try:
        import resource  # noqa: PLC0415 - only on Unix
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit
