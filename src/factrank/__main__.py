"""The program `factrank`: it can be interrupted from its first moment, although its imports take a second.

An interruption in the middle of an import may be swallowed by the module, or leave a library in C half made. While
something is being imported there is nothing to save, so that the process ends at once; afterwards Ctrl-C is a
`KeyboardInterrupt`, as always.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED = 130
IMPORT_SYSTEM = "<frozen importlib._bootstrap>"


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGINT, _interrupt)
    from factrank.cli import main as run_command_line  # noqa: PLC0415 - not before Ctrl-C is taken care of

    try:
        run_command_line()
    finally:
        signal.signal(signal.SIGINT, _end)


def _interrupt(_signal: int, frame: FrameType | None) -> None:
    if _is_importing(frame):
        _end()
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORT_SYSTEM:
            return True
        frame = frame.f_back
    return False


def _end(*_: object) -> None:
    os.write(2, b"factrank: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
