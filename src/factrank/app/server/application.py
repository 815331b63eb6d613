"""The application: the page and its API.

    GET     /                             the page; a browser without a session gets one
    GET     /api/state                    the session's table and jobs, samples and limits
    PUT     /api/table?name=NAME&...      upload a table (the raw body), and read it
    POST    /api/sample                   {"name": NAME}: read a bundled table
    POST    /api/jobs                     {"kind": KIND, "table": ID, "options": {...}}: measure, construct,
                                          train or plan the table that job ID has read
    GET     /api/jobs/ID/events           progress, as server-sent events
    DELETE  /api/jobs/ID                  cancel
    GET     /api/jobs/ID/files/NAME       a result
    GET     /api/explorer.html?table=ID&jobs=ID,..
                                          the static page of the table and these results
    DELETE  /api/session                  delete everything of this session

A session has one table, which another tab may have replaced: a request about another table than the current one is
refused with 409, so that no page shows a result over facts that it is not about.

All paths begin with the token, which `Guard` has removed. A session is found by its cookie; a job only within its
session.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from factrank.app.page import build_explorer, explorer_payload
from factrank.app.server.guard import Guard
from factrank.app.server.jobs import BusyError, Job
from factrank.app.server.limits import Limits
from factrank.app.server.requests import OPTIONS, UPLOAD, TableOptions, checked, file_name, sample_named
from factrank.app.server.sessions import FullError, Session, Sessions
from factrank.app.server.uploads import LingeringResponse, TooLargeError, json_body, save_body
from factrank.databases import SAMPLES
from factrank.errors import FactrankError, InputError
from factrank.foreign_text import quoted

COOKIE = "factrank-session"
SWEEP_SECONDS = 30.0
KEEP_ALIVE_SECONDS = 15.0
PAYLOAD_PARTS = ("database", "title", "measurement", "layer", "certificate")
DOWNLOADS = {
    "layer.safetensors": "application/octet-stream",
    "facts.csv": "text/csv; charset=utf-8",
    "curve.csv": "text/csv; charset=utf-8",
    "measurement.json": "application/json",
    "plan.json": "application/json",
    "payload.json": "application/json",
}
"""Files of jobs that can be fetched, and their types. Snapshots of training are `epoch-N.json`."""

POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


def create_app(token: str, hosts: list[str], limits: Limits | None = None) -> ASGIApp:
    """Return the application.

    Arguments:
        token: First part of every path.
        hosts: Accepted Host headers (`own_hosts`).
        limits: Limits on sessions and jobs.
    """
    return Guard(Pages(token, limits or Limits()).application(), token, hosts)


class Pages:
    """The endpoints, with the sessions of one server."""

    def __init__(self, token: str, limits: Limits) -> None:
        self.token, self.limits = token, limits
        self.closing = asyncio.Event()
        self.sessions = Sessions(limits)
        self._page: str | None = None

    def application(self) -> Starlette:
        """Return the application without its guard."""
        own = self._of_session
        routes = [
            Route("/", self.page, methods=["GET"]),
            Route("/api/state", own(self.state), methods=["GET"]),
            Route("/api/table", own(self.upload), methods=["PUT"]),
            Route("/api/sample", own(self.sample), methods=["POST"]),
            Route("/api/jobs", own(self.start), methods=["POST"]),
            Route("/api/jobs/{job}", own(self.cancel), methods=["DELETE"]),
            Route("/api/jobs/{job}/events", own(self.events), methods=["GET"]),
            Route("/api/jobs/{job}/files/{name}", own(self.file), methods=["GET"]),
            Route("/api/explorer.html", own(self.explorer), methods=["GET"]),
            Route("/api/session", own(self.end), methods=["DELETE"]),
        ]
        return Starlette(routes=routes, lifespan=self.lifespan, exception_handlers=HANDLERS)

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """End idle sessions now and then; at the end, delete everything."""
        sweep = asyncio.create_task(self._sweep())
        try:
            yield
        finally:
            self.closing.set()
            sweep.cancel()
            await self.sessions.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sessions.end_idle()

    # ---------------------------------------------------------------- the page and the session

    async def page(self, request: Request) -> Response:
        """Return the page, and a session to a browser that has none."""
        if self._page is None:
            self._page = await asyncio.to_thread(build_explorer, explorer_payload(None), {"api": "api/"})
        response = HTMLResponse(self._page)
        found = POLICY.search(self._page)
        if found is not None:
            policy = found[1].replace("&#39;", "'")
            response.headers["Content-Security-Policy"] = f"{policy}; frame-ancestors 'none'"
        if self.sessions.find(request.cookies.get(COOKIE)) is None:
            session = self.sessions.new()
            self.sessions.jobs.prepare()
            response.set_cookie(COOKIE, session.id, path=f"/{self.token}/", httponly=True, samesite="strict")
        return response

    def _of_session(
        self, endpoint: Callable[[Request, Session], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def found(request: Request) -> Response:
            session = self.sessions.find(request.cookies.get(COOKIE))
            if session is None:
                return _refused(401, "this session has ended, and its data are deleted; reload the page")
            return await endpoint(request, session)

        return found

    async def state(self, _request: Request, session: Session) -> Response:
        """Return what a page that was reloaded needs to show."""
        samples = [{"name": one.name, "title": one.title, "facts": one.n_facts} for one in SAMPLES.values()]
        return JSONResponse(
            {
                "table": None if session.table is None else session.table.plain(),
                "jobs": [job.plain() for job in session.jobs.values()],
                "samples": samples,
                "limits": {"upload_bytes": self.limits.upload_bytes, "facts": self.limits.facts},
            }
        )

    async def end(self, _request: Request, session: Session) -> Response:
        """Delete everything of a session."""
        await self.sessions.end(session)
        response = JSONResponse({"ended": True})
        response.delete_cookie(COOKIE, path=f"/{self.token}/", httponly=True, samesite="strict")
        return response

    # ---------------------------------------------------------------- tables and jobs

    async def upload(self, request: Request, session: Session) -> Response:
        """Save an upload and read it as a table."""
        given = dict(request.query_params)
        shown = given.pop("name", "")
        name, options = file_name(shown), checked(TableOptions, given)
        folder = session.new_folder()
        (folder / UPLOAD).mkdir()
        try:
            await save_body(request, folder / UPLOAD / name, self.limits.upload_bytes)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return await self._read(session, {"file": name, "title": name, "options": options.model_dump()}, folder)

    async def sample(self, request: Request, session: Session) -> Response:
        """Read a bundled table."""
        name = sample_named((await json_body(request)).get("name"))
        return await self._read(session, {"sample": name, "title": name}, session.new_folder())

    async def _read(self, session: Session, table: dict[str, Any], folder: Any) -> Response:
        for old in session.unfinished:
            await self.sessions.jobs.cancel(old)
        request = {"table": table, "options": {}}
        return JSONResponse(self.sessions.start(session, "read", folder, request, on_done=session.adopt).plain(), 202)

    async def start(self, request: Request, session: Session) -> Response:
        """Start a job on the current table."""
        asked = await json_body(request)
        kind = asked.get("kind")
        kinds = [one for one in OPTIONS if one != "read"]
        if set(asked) - {"kind", "table", "options"} or not isinstance(kind, str) or kind not in kinds:
            raise InputError(f"a job has a kind ({', '.join(kinds)}) and options; got the kind {quoted(kind)}")
        options = checked(OPTIONS[kind], asked.get("options", {}))
        read = _current_table(session, asked.get("table"))
        folder, table = session.new_folder(), read.request["table"]
        if table.get("file") is not None:
            (folder / UPLOAD).mkdir()
            os.link(read.folder / UPLOAD / table["file"], folder / UPLOAD / table["file"])
        request_of_job = {"table": table, "read": read.id, "options": options.model_dump()}
        return JSONResponse(self.sessions.start(session, kind, folder, request_of_job).plain(), 202)

    async def cancel(self, request: Request, session: Session) -> Response:
        """Cancel a job."""
        job = _job(request, session)
        await self.sessions.jobs.cancel(job)
        return JSONResponse(job.plain())

    async def events(self, request: Request, session: Session) -> Response:
        """Stream the events of a job, from the one after Last-Event-ID on."""
        job = _job(request, session)
        last = request.headers.get("last-event-id", "")
        after = int(last) + 1 if last.isascii() and last.isdigit() and len(last) < 10 else 0
        return StreamingResponse(self._stream(job, after), media_type="text/event-stream")

    async def _stream(self, job: Job, after: int) -> AsyncIterator[str]:
        """Yield events as text; a comment now and then shows that the connection lives."""
        source = job.follow(after)
        closing = asyncio.create_task(self.closing.wait())
        coming: asyncio.Task[tuple[int, dict[str, Any]]] | None = None
        try:
            while not closing.done():
                coming = coming or asyncio.ensure_future(anext(source))
                await asyncio.wait((coming, closing), timeout=KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    yield ": waiting\n\n"
                    continue
                try:
                    at, event = coming.result()
                except StopAsyncIteration:
                    return
                coming = None
                yield f"id: {at}\ndata: {json.dumps(event)}\n\n"
        finally:
            closing.cancel()
            if coming is not None:
                coming.cancel()
                with suppress(asyncio.CancelledError, StopAsyncIteration):
                    await coming

    # ---------------------------------------------------------------- results

    async def file(self, request: Request, session: Session) -> Response:
        """Return a file of a job."""
        job, name = _job(request, session), request.path_params["name"]
        kind = "application/json" if re.fullmatch(r"epoch-[0-9]{1,9}\.json", name) else DOWNLOADS.get(name)
        path = job.folder / name
        if kind is None or path.is_symlink() or not path.is_file():
            return _refused(404, "there is no such result")
        return FileResponse(path, media_type=kind, filename=name)

    async def explorer(self, request: Request, session: Session) -> Response:
        """Return the static page of the current table with the results of the given jobs."""
        read = _current_table(session, request.query_params.get("table"))
        names = [name for name in request.query_params.get("jobs", "").split(",") if name]
        if not set(names) <= set(session.jobs):
            raise UnknownJobError
        jobs = [read, *(session.jobs[name] for name in names)]
        page = await asyncio.to_thread(_static_page, jobs)
        headers = {"Content-Disposition": 'attachment; filename="explorer.html"'}
        return HTMLResponse(page, headers=headers)


def _static_page(jobs: list[Job]) -> str:
    payload, about = explorer_payload(None), None
    for job in jobs:
        parts = json.loads((job.folder / "payload.json").read_text(encoding="utf-8"))
        about = about or parts["about"]
        if parts["about"] != about:
            raise OtherTableError("a result is about another table; reload the page")
        payload |= {name: part for name, part in parts.items() if name in PAYLOAD_PARTS}
    return build_explorer(payload)


def _job(request: Request, session: Session) -> Job:
    """Return a job of this session; for it, jobs of other sessions do not exist."""
    job = session.jobs.get(request.path_params["job"])
    if job is None:
        raise UnknownJobError
    return job


def _current_table(session: Session, asked: Any) -> Job:
    """Return the job that has read the session's table, if that is the one asked about."""
    if any(job.kind == "read" for job in session.unfinished):
        raise OtherTableError("a new table is being read; wait until it is there")
    if session.table is None:
        raise InputError("there is no table yet: upload or paste one, or choose a sample")
    if asked != session.table.id:
        raise OtherTableError("this session has another table now, perhaps from another tab; reload the page to see it")
    return session.table


class OtherTableError(Exception):
    """A request is about a table that is not the session's current one."""


class UnknownJobError(Exception):
    """The session has no such job."""


def _refused(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status)


def _handler(status: int, message: str | None = None) -> Callable[[Request, Exception], Response]:
    def handle(request: Request, error: Exception) -> Response:  # noqa: ARG001 - as Starlette calls it
        return _refused(status, message or str(error))

    return handle


HANDLERS: Any = {
    FactrankError: _handler(400),
    TooLargeError: lambda *_: LingeringResponse({"error": "the upload is larger than this server takes"}, 413),
    BusyError: _handler(429, "too many jobs of yours are unfinished; wait for one, or cancel it"),
    FullError: _handler(503, "too many sessions; close one, or try again later"),
    OtherTableError: _handler(409),
    UnknownJobError: _handler(404, "there is no such job"),
    FileNotFoundError: _handler(404, "there is no such result"),
}
"""Answers to errors."""
