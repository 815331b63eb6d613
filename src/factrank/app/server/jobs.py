"""Jobs: one worker process each, with limits on time, memory and output, waiting for their turn.

A worker prints its progress as lines of JSON and writes its results to the folder of its job. Nothing that it prints is
executed or unpickled. A worker that dies, hangs or grows ends its own job only.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from factrank.app.server.limits import Limits

JobState = Literal["waiting", "running", "done", "failed", "cancelled"]
ENDED = ("done", "failed", "cancelled")
LONGEST_LINE, MOST_EVENTS = 2**18, 5_000
WATCH_SECONDS = 0.2
WORKER = (sys.executable, "-P", "-m", "factrank.app.server.worker")
"""Command of a worker. It runs in a folder with foreign files, from which -P imports nothing."""


class BusyError(Exception):
    """A session has as many unfinished jobs as it may have."""


@dataclass(eq=False)
class Job:
    """One job: what was asked, and what is known of it so far.

    Attributes:
        id: Random name, unguessable.
        folder: Folder in which its worker runs, and where results are.
        request: What the worker is told, except the limits.
        events: Everything that was reported, in order; the last one ends the job.
        on_done: Called with the job when it is done.
    """

    kind: str
    folder: Path
    request: Mapping[str, Any]
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    state: JobState = "waiting"
    events: list[dict[str, Any]] = field(default_factory=list)
    pid: int | None = None
    on_done: Callable[[Job], None] = lambda _: None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ended(self) -> bool:
        """Whether nothing more will be reported."""
        return self.state in ENDED

    @property
    def result(self) -> dict[str, Any] | None:
        """Result of a job that is done."""
        return self.events[-1]["result"] if self.state == "done" else None

    def plain(self) -> dict[str, Any]:
        """Return the job as plain data, without its progress; `table` is the job that has read its table."""
        last = self.events[-1] if self.ended else {}
        options = self.request.get("options", {})
        plain = {"id": self.id, "kind": self.kind, "state": self.state, "options": options}
        return (
            plain
            | {"table": self.request.get("read")}
            | {name: last[name] for name in ("result", "message") if name in last}
        )

    def report(self, event: Mapping[str, Any]) -> None:
        """Add an event, unless the job has ended."""
        if self.ended:
            return
        if event["event"] in ("waiting", "running", *ENDED):
            self.state = event["event"]
        self.events.append(dict(event))
        if self.state == "done":
            self.on_done(self)
        news, self._news = self._news, asyncio.Event()
        news.set()

    def fail(self, message: str) -> None:
        """End the job with a message for its user."""
        self.report({"event": "failed", "message": message})

    async def follow(self, after: int = 0) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        """Yield the events from the index `after` on, as they come, until the job has ended."""
        while True:
            news = self._news
            while after < len(self.events):
                yield after, self.events[after]
                after += 1
            if self.ended:
                return
            await news.wait()


class Jobs:
    """Runs jobs, at most `limits.running` at once and in the order in which they were asked for."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._room = asyncio.Semaphore(limits.running)
        self._tasks: dict[Job, asyncio.Task[None]] = {}
        self._spares: list[asyncio.Task[asyncio.subprocess.Process]] = []

    def prepare(self) -> None:
        """Start a worker for the next job ahead of time: loading the libraries takes seconds."""
        if not self._spares:
            self._spares.append(asyncio.create_task(_started()))

    def start(self, job: Job, turn: asyncio.Semaphore) -> None:
        """Start a job when it is the turn of its session and there is room for it."""
        job.report({"event": "waiting"})
        task = asyncio.create_task(self._run(job, turn))
        self._tasks[job] = task
        task.add_done_callback(lambda _: self._ended(job))

    def _ended(self, job: Job) -> None:
        """Forget the task of a job; what was uploaded or written for nothing is deleted at once."""
        self._tasks.pop(job, None)
        if job.state != "done":
            shutil.rmtree(job.folder, ignore_errors=True)

    async def cancel(self, job: Job) -> None:
        """End a job and its worker, and wait until the worker is gone."""
        job.report({"event": "cancelled", "message": "cancelled"})
        task = self._tasks.get(job)
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def close(self) -> None:
        """Cancel every job, and end the worker that waits."""
        await asyncio.gather(*(self.cancel(job) for job in list(self._tasks)))
        for spare in self._spares:
            with suppress(OSError):
                await _end(await spare)
        self._spares.clear()

    async def _run(self, job: Job, turn: asyncio.Semaphore) -> None:
        async with turn, self._room:
            job.report({"event": "running"})
            try:
                await self._work(job)
            except OSError as error:
                job.fail(f"no worker could be started: {error.strerror or error}")

    async def _work(self, job: Job) -> None:
        process = await self._worker()
        job.pid = process.pid
        watch = asyncio.create_task(self._watch(job, process))
        try:
            async with asyncio.timeout(self.limits.job_seconds):
                await self._converse(job, process)
        except TimeoutError:
            seconds = f"{self.limits.job_seconds:,.0f} s"
            job.fail(f"stopped after {seconds}, the time limit of a job: choose a smaller table, layer or budget")
        finally:
            watch.cancel()
            await _end(process)
            self.prepare()

    async def _worker(self) -> asyncio.subprocess.Process:
        """Return the worker that was started ahead of time, or a new one if there is none or it has died."""
        if self._spares:
            spare = self._spares.pop()
            try:
                process = await asyncio.shield(spare)
            except asyncio.CancelledError:
                self._spares.append(spare)
                raise
            if process.returncode is None:
                return process
            await _end(process)
        return await _started()

    async def _converse(self, job: Job, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None  # noqa: PT018, S101 - both are pipes
        request = {**job.request, "kind": job.kind, "folder": str(job.folder), "limits": asdict(self.limits)}
        with suppress(ConnectionError):  # a worker that died at once: its exit status tells
            process.stdin.write(json.dumps(request).encode() + b"\n")
            await process.stdin.drain()  # and stays open: a worker ends when its server does
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                line = b"?"
            if not line:
                break
            event = _event(line)
            if event is None or len(job.events) > MOST_EVENTS:
                job.fail("the worker broke off: it reported something that is not an event")
                return
            job.report(event)
        status = await process.wait()
        if not job.ended:
            job.fail(_death(status))

    async def _watch(self, job: Job, process: asyncio.subprocess.Process) -> None:
        """End a worker whose memory exceeds the limit; the kernel limits its address space as well."""
        while True:
            if _resident_bytes(process.pid) > self.limits.job_bytes:
                gigabytes = f"{self.limits.job_bytes / 2**30:,.1f} GiB"
                job.fail(f"stopped at {gigabytes}, the memory limit of a job: choose a smaller table or layer")
                _kill(process)
                return
            await asyncio.sleep(WATCH_SECONDS)


def _event(line: bytes) -> dict[str, Any] | None:
    """Return what a worker reports: an object with the name of an event."""
    with suppress(ValueError, RecursionError):
        event = json.loads(line)
        if isinstance(event, dict) and event.get("event") in ("progress", "point", "done", "failed"):
            wanted = {"done": ("result", dict), "failed": ("message", str)}.get(event["event"])
            if wanted is None or isinstance(event.get(wanted[0]), wanted[1]):
                return event
    return None


def _death(status: int) -> str:
    again = "the other jobs and your table are unharmed; start it again"
    if status < 0:
        with suppress(ValueError):
            return f"the worker was ended by {signal.Signals(-status).name} before it was done; {again}"
    return f"the worker ended with status {status} before it was done; {again}"


async def _started() -> asyncio.subprocess.Process:
    """Start a worker, which waits for its request."""
    return await asyncio.create_subprocess_exec(
        *WORKER,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=_environment(),
        start_new_session=True,
        limit=LONGEST_LINE,
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a worker, and close its pipes."""
    _kill(process)
    await process.wait()
    if process.stdin is not None and process.stdout is not None:
        process.stdin.close()
        await process.stdout.read()


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)  # the worker leads a group of its own
        else:
            process.kill()


def _environment() -> dict[str, str]:
    """Return the environment of a worker: absolute paths to import from, and no GPU."""
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    return os.environ | {"PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}


def _resident_bytes(pid: int) -> int:
    """Return the memory that a process uses, or 0 if the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0
