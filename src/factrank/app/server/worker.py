"""The worker process of one job: reads its request from standard input, prints events as lines of JSON.

Run as `python -m factrank.app.server.worker`. It loads its libraries, waits for the request, goes to the folder of the
job, and limits itself before it opens a table. It ends when the server closes its standard input, so that no worker
outlives its server.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
import warnings
from importlib import import_module
from threading import Thread
from typing import Any, TextIO

from factrank.app.server.tasks import LIBRARIES, TASKS
from factrank.errors import FactrankError, InputWarning
from factrank.foreign_text import shown_message
from factrank.readouts import finite_data

RESERVED_BYTES = 2 * 2**30
"""Address space that JAX and numba reserve without using it; the server watches what is used."""

OUT_OF_MEMORY = "the job needs more memory than it may have: choose a smaller table or layer"


def main() -> None:
    """Do one job."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for library in LIBRARIES:
        import_module(library)
    request = json.loads(sys.stdin.buffer.readline() or "null")
    if request is None:
        return  # the server ended before there was a job
    Thread(target=_end_with_server, daemon=True).start()
    os.chdir(request["folder"])
    tempfile.tempdir = request["folder"]
    log = os.open("worker.log", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(log, 1)  # what libraries print is no event
    os.dup2(log, 2)
    limit(request["limits"]["job_bytes"], request["limits"]["file_bytes"])

    def tell(event: str, **fields: Any) -> None:
        say(events, {"event": event, **fields})

    try:
        tell("done", result=_done(request, tell))
    except FactrankError as error:
        tell("failed", message=str(error))
    except MemoryError:
        tell("failed", message=OUT_OF_MEMORY)
    except Exception as error:
        traceback.print_exc()
        if "RESOURCE_EXHAUSTED" in str(error) or "bad_alloc" in str(error):
            tell("failed", message=OUT_OF_MEMORY)
        else:
            tell("failed", message=shown_message(f"an unexpected error: {type(error).__name__}: {error}"))
    os._exit(0)  # no waiting for threads of libraries


def _done(request: dict[str, Any], tell: Any) -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        result = TASKS[request["kind"]](request, tell)
    notes = [str(one.message) for one in caught if isinstance(one.message, InputWarning)]
    return {**result, "notes": notes}


def say(stream: TextIO, event: dict[str, Any]) -> None:
    """Print an event; numbers that JSON lacks become null."""
    stream.write(json.dumps(finite_data(event), allow_nan=False) + "\n")
    stream.flush()


def limit(memory: int, file_size: int) -> None:
    """Let the kernel refuse more memory and larger files, on systems that do so."""
    try:
        import resource  # noqa: PLC0415 - only on Unix
    except ImportError:
        return
    for kind, most in ((resource.RLIMIT_DATA, memory + RESERVED_BYTES), (resource.RLIMIT_FSIZE, file_size)):
        hard = resource.getrlimit(kind)[1]
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(kind, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end_with_server() -> None:
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
