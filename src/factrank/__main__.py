"""Entry point of the `factrank` command, which handles Ctrl-C even while its imports are running.

A `KeyboardInterrupt` in the middle of an import may be swallowed by the module or leave a C library half initialised.
During imports there is no work to save, so Ctrl-C ends the process immediately; afterwards it raises
`KeyboardInterrupt` as usual.
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
    from factrank.cli import main as run_command_line  # noqa: PLC0415 - after the Ctrl-C handler is installed

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
