"""Limits of the live explorer."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits on what the users of one server may do.

    Arguments:
        upload_bytes: Size of a table.
        facts: Number of facts of a table.
        job_seconds: Running time of a job.
        job_bytes: Memory of a job.
        file_bytes: Size of each file that a job writes.
        running: Number of jobs that run at the same time.
        unfinished: Number of jobs of one session that run or wait; one runs at a time.
        kept: Number of finished jobs of one session whose results are kept.
        sessions: Number of sessions.
        idle_seconds: Time without a request after which a session ends.
    """

    upload_bytes: int = 20_000_000
    facts: int = 100_000
    job_seconds: float = 600.0
    job_bytes: int = 2 * 2**30
    file_bytes: int = 200_000_000
    running: int = max(1, min(4, (os.cpu_count() or 2) // 2))
    unfinished: int = 4
    kept: int = 8
    sessions: int = 32
    idle_seconds: float = 3600.0
