"""Sessions: each browser has an unguessable name, a private folder and jobs of its own.

The folders are inside one temporary folder of the server, readable by its user only. A session's folder is deleted when
the session ends; all of them when the server ends. The server holds a lock on its folder while it lives, so that the
next one can delete the folder of a server that was killed.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from factrank.app.server.jobs import BusyError, Job, Jobs
from factrank.app.server.limits import Limits

PREFIX = "factrank-app-"


class FullError(Exception):
    """There are as many sessions as there may be."""


@dataclass(eq=False)
class Session:
    """One user: a folder, a current table, and jobs.

    Attributes:
        id: Random name, which only the user's browser and the server know.
        table: The job that has read the current table, or None.
    """

    folder: Path
    id: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    table: Job | None = None
    jobs: dict[str, Job] = field(default_factory=dict)
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    seen: float = field(default_factory=monotonic)

    @property
    def unfinished(self) -> list[Job]:
        """Jobs that run or wait."""
        return [job for job in self.jobs.values() if not job.ended]

    @property
    def is_unused(self) -> bool:
        """Whether it has neither jobs nor an upload on its way."""
        return not self.jobs and not any(self.folder.iterdir())

    def adopt(self, table: Job) -> None:
        """Make a table the current one, and delete everything that belongs to another one."""
        for job in [job for job in self.jobs.values() if job.ended and job is not table]:
            del self.jobs[job.id]
            shutil.rmtree(job.folder, ignore_errors=True)
        self.table = table

    def new_folder(self) -> Path:
        """Return a new folder for a job or an upload."""
        return Path(tempfile.mkdtemp(dir=self.folder))


class Sessions:
    """All sessions of a server."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = monotonic) -> None:
        self.limits, self.jobs, self._clock = limits, Jobs(limits), clock
        _delete_abandoned()
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = _locked(self.folder)
        self._sessions: dict[str, Session] = {}

    def find(self, name: str | None) -> Session | None:
        """Return the session with this name, and note that it is in use."""
        session = self._sessions.get(name or "")
        if session is not None:
            session.seen = self._clock()
        return session

    def new(self) -> Session:
        """Return a new session.

        Raises:
            FullError: If there are too many.
        """
        if len(self._sessions) >= self.limits.sessions:
            unused = min(
                (one for one in self._sessions.values() if one.is_unused), key=lambda one: one.seen, default=None
            )
            if unused is None:
                raise FullError
            del self._sessions[unused.id]
            shutil.rmtree(unused.folder, ignore_errors=True)
        session = Session(Path(tempfile.mkdtemp(dir=self.folder)), seen=self._clock())
        self._sessions[session.id] = session
        return session

    def start(
        self,
        session: Session,
        kind: str,
        folder: Path,
        request: dict[str, Any],
        on_done: Callable[[Job], None] = lambda _: None,
    ) -> Job:
        """Start a job.

        Raises:
            BusyError: If the session has too many unfinished jobs.
        """
        if len(session.unfinished) >= self.limits.unfinished:
            shutil.rmtree(folder, ignore_errors=True)
            raise BusyError
        job = Job(kind, folder, request, on_done=on_done)
        session.jobs[job.id] = job
        ended = [one for one in session.jobs.values() if one.ended and one is not session.table]
        for old in ended[: max(0, len(ended) - self.limits.kept)]:
            del session.jobs[old.id]
            shutil.rmtree(old.folder, ignore_errors=True)
        self.jobs.start(job, session.turn)
        return job

    async def end(self, session: Session) -> None:
        """End a session: its jobs are cancelled, and everything that it has uploaded or made is deleted."""
        self._sessions.pop(session.id, None)
        await asyncio.gather(*(self.jobs.cancel(job) for job in session.unfinished))
        await asyncio.to_thread(shutil.rmtree, session.folder, ignore_errors=True)

    async def end_idle(self) -> None:
        """End the sessions that have been idle for too long and have no unfinished job."""
        oldest = self._clock() - self.limits.idle_seconds
        idle = [one for one in self._sessions.values() if one.seen < oldest and not one.unfinished]
        await asyncio.gather(*(self.end(session) for session in idle))

    async def close(self) -> None:
        """End all sessions and delete the folder of the server."""
        await self.jobs.close()
        self._sessions.clear()
        self.delete()

    def delete(self) -> None:
        """Delete the folder of the server."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _locked(folder: Path) -> int | None:
    """Lock a folder; returns the open file, or None if it is locked already or the system has no such locks."""
    with suppress(ImportError, OSError):
        import fcntl  # noqa: PLC0415 - only on Unix

        opened = os.open(folder, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(opened)
            raise
        return opened
    return None


def _delete_abandoned() -> None:
    """Delete the folders that servers of this user left behind when they were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or not hasattr(os, "getuid") or found.st_uid != os.getuid():
                continue
            held = _locked(folder)
            if held is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(held)
