"""What this machine has: the memory that a process may use, and the refusal of what needs more."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from factrank.errors import InputError

IF_UNKNOWN = 2**34
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")

COMPILER_ROOM = 3 * 2**30
"""Address space that JAX and numba need to start; with less their libraries abort without a message."""


def memory_room() -> int:
    """The bytes of memory of this machine, or of the limit that is set for this process, if that is less."""
    return min([_physical(), *_limits()])


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse what cannot fit into memory, before it is asked for.

    Arguments:
        needed: bytes.
        what: the subject of the message, such as "8 facts".
        remedy: what to do instead.
    """
    room = memory_room()
    if needed > room:
        raise InputError(
            f"{what} would take {needed / 2**30:,.1f} GiB of memory, this machine has {room / 2**30:,.1f}: {remedy}"
        )


def require_compilers_fit() -> None:
    """Refuse to load JAX and numba into an address space in which they would abort."""
    limit = _address_space()
    if limit is not None and limit < COMPILER_ROOM:
        raise InputError(
            f"this command compiles programs, which takes {COMPILER_ROOM / 2**30:g} GiB of address space; "
            f"the limit is {limit / 2**30:,.1f} GiB: raise it (ulimit -v)"
        )


def _physical() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return IF_UNKNOWN


def _limits() -> list[int]:
    """The limits of the address space and of the container, as far as there are any."""
    limits = [_address_space()]
    with suppress(OSError, ValueError):  # there is no container, or it says "max"
        limits.append(int(CONTAINER_LIMIT.read_text(encoding="ascii")))
    return [limit for limit in limits if limit is not None]


def _address_space() -> int | None:
    try:
        import resource  # noqa: PLC0415 - Unix has it
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit
