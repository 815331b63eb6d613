"""The API of the live explorer: who may ask, what belongs to whom, and what happens to workers that misbehave."""

import asyncio
import json
import os
import sys
import textwrap
from contextlib import asynccontextmanager
from dataclasses import asdict

import pytest

pytest.importorskip("starlette", reason="extra 'app' is not installed")
httpx = pytest.importorskip("httpx")

from factrank.app.server import application, jobs, sessions, uploads  # noqa: E402
from factrank.app.server.guard import Guard  # noqa: E402
from factrank.app.server.limits import Limits  # noqa: E402

TOKEN, HOST = "a-long-token", "127.0.0.1:8000"
OWN = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}
TABLE = "key,query,value\nOslo,country,Norway\nLima,country,Peru\n"

ECHO = """
import json, os, sys
request = json.loads(sys.stdin.readline() or "null") or sys.exit()
os.chdir(request["folder"])
def tell(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)
if request["kind"] == "read":
    READ
    tell("done", result={"title": request["table"]["title"], "read": open("upload/" + request["table"]["file"]).read()})
    sys.exit()
"""
"""A worker that returns the table it reads; tests add what it does in other jobs."""


@pytest.fixture
def worker(monkeypatch, tmp_path):
    """Replace the worker by a script, which begins with ECHO; and put temporary files where they can be looked at."""
    monkeypatch.setattr(sessions.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(application, "build_explorer", lambda payload, live=None: f"page of {payload.get('title')!r}")

    def use(code, read="pass"):
        script = tmp_path / "worker.py"
        script.write_text(ECHO.replace("READ", read) + textwrap.dedent(code), encoding="utf-8")
        monkeypatch.setattr(jobs, "WORKER", (sys.executable, str(script)))
        monkeypatch.setattr(jobs.Jobs, "prepare", lambda _: None)  # the script may change before the next job

    use("")
    return use


@asynccontextmanager
async def serving(**limits):
    pages = application.Pages(TOKEN, Limits(**limits))
    inner = pages.application()
    async with inner.router.lifespan_context(inner):
        yield Guard(inner, TOKEN, [HOST]), pages


class User:
    """A browser: its requests carry its cookies, and the headers that the page's requests have."""

    def __init__(self, app):
        transport = httpx.ASGITransport(app)
        self.client = httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}/{TOKEN}/", headers=OWN)

    async def open(self):
        assert (await self.client.get("")).status_code == 200
        return self

    async def upload(self, text=TABLE, name="cities.csv"):
        job = (await self.client.put("api/table", params={"name": name}, content=text)).json()
        return await self.ending(job)

    async def start(self, kind="measure", options=None):
        table = (await self.client.get("api/state")).json()["table"]["id"]
        return (
            await self.client.post("api/jobs", json={"kind": kind, "table": table, "options": options or {}})
        ).json()

    async def ending(self, job):
        """Return the last event of a job."""
        stream = await self.client.get(f"api/jobs/{job['id']}/events")
        assert stream.headers["content-type"].startswith("text/event-stream")
        return [json.loads(line[6:]) for line in stream.text.splitlines() if line.startswith("data: ")][-1]


def running(story, **limits):
    """Run a story with an application and a user."""

    async def run():
        async with serving(**limits) as (app, pages):
            await story(await User(app).open(), pages)

    asyncio.run(asyncio.wait_for(run(), 300))  # a stuck job ends the test


# -------------------------------------------------------------------- who may ask


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", f"/{TOKEN}/", {}, 200),
        ("GET", f"/{TOKEN}/", {"Host": "evil.example:8000"}, 421),  # a name that was pointed at this machine
        ("GET", f"/{TOKEN}/", {"Host": "127.0.0.1:9"}, 421),
        ("GET", f"/{TOKEN[:-1]}/", {}, 404),
        ("GET", "/", {}, 404),
        ("GET", "/api/state", {}, 404),
        ("GET", f"/{TOKEN}/api/state", {}, 401),  # no session
        ("GET", f"/{TOKEN}/api/state", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("GET", f"/{TOKEN}/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ("GET", f"/{TOKEN}/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),  # a link
        ("POST", f"/{TOKEN}/api/sample", {}, 403),
        ("POST", f"/{TOKEN}/api/sample", {"Origin": "https://evil.example"}, 403),
        ("POST", f"/{TOKEN}/api/sample", {"Origin": "null"}, 403),
        ("POST", f"/{TOKEN}/api/sample", {"Origin": "http://127.0.0.1:9000"}, 403),  # another server of this machine
        ("POST", f"/{TOKEN}/api/sample", {**OWN, "Sec-Fetch-Site": "same-site"}, 403),
        ("POST", f"/{TOKEN}/api/sample", OWN, 401),
        ("PUT", f"/{TOKEN}/api/table?name=a.csv", {"Origin": "https://evil.example"}, 403),
        ("DELETE", f"/{TOKEN}/api/session", {"Origin": "https://evil.example"}, 403),
    ],
)
def test_strangers_are_refused(worker, method, path, headers, status):
    async def story():
        async with serving() as (app, _):
            client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{HOST}")
            answer = await client.request(method, path, headers=headers)
            assert answer.status_code == status
            assert "access-control-allow-origin" not in answer.headers
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]

    asyncio.run(story())


def test_the_cookie_is_for_this_page_alone(worker):
    async def story(user, pages):
        cookie = (await User(user.client._transport.app).client.get("")).headers["set-cookie"].lower()
        assert {"httponly", "samesite=strict", f"path=/{TOKEN}/"} <= {part.strip() for part in cookie.split(";")}
        assert "set-cookie" not in (await user.client.get("")).headers  # a session is kept

    running(story)


# -------------------------------------------------------------------- what belongs to whom


def test_two_users_see_only_their_own(worker):
    async def story(ann, pages):
        bob = await User(ann.client._transport.app).open()
        await asyncio.gather(ann.upload("key,query,value\na,b,ann\n", "ann.csv"), bob.upload(name="bob.csv"))
        states = [(await user.client.get("api/state")).json() for user in (ann, bob)]
        assert [state["table"]["result"]["title"] for state in states] == ["ann.csv", "bob.csv"]
        assert states[0]["table"]["result"]["read"] == "key,query,value\na,b,ann\n"
        theirs = states[0]["table"]["id"]
        for method, path in (("GET", "/events"), ("GET", "/files/facts.csv"), ("DELETE", "")):
            assert (await bob.client.request(method, f"api/jobs/{theirs}{path}")).status_code == 404
        assert (await ann.client.get("api/state")).json() == states[0]

    running(story)


def test_a_session_that_ends_leaves_nothing(worker, tmp_path):
    async def story(user, pages):
        await user.upload()
        assert list(pages.sessions.folder.rglob("cities.csv"))
        assert pages.sessions.folder.stat().st_mode & 0o077 == 0
        assert (await user.client.delete("api/session")).status_code == 200
        assert list(pages.sessions.folder.iterdir()) == []
        assert (await user.client.get("api/state")).status_code == 401
        await user.open()
        await user.upload()
        for session in pages.sessions._sessions.values():
            session.seen -= 7200
        await pages.sessions.end_idle()
        assert list(pages.sessions.folder.iterdir()) == []
        await user.open()
        await user.upload()

    running(story)
    assert list(tmp_path.glob(f"{sessions.PREFIX}*")) == []  # nor does the server


def test_the_folder_of_a_killed_server_is_deleted_by_the_next(worker, tmp_path):
    left, linked = tmp_path / f"{sessions.PREFIX}left", tmp_path / f"{sessions.PREFIX}link"
    left.mkdir()
    (left / "secret.csv").write_text("x")
    linked.symlink_to(tmp_path)

    async def story(user, pages):
        assert not left.exists()
        assert linked.exists()
        another = sessions.Sessions(Limits())
        assert pages.sessions.folder.exists()  # its server lives
        another.delete()

    running(story)


def test_a_new_table_replaces_the_old_one(worker):
    async def story(user, pages):
        await user.upload()
        first = (await user.client.get("api/state")).json()["table"]["id"]
        await user.upload(name="more.csv")
        assert (await user.client.get(f"api/jobs/{first}/events")).status_code == 404
        assert [path.name for path in pages.sessions.folder.rglob("*.csv")] == ["more.csv"]

    running(story)


# -------------------------------------------------------------------- tables


def test_uploads_have_a_limit(worker, monkeypatch):
    monkeypatch.setattr(uploads, "LINGER_BYTES", 0)
    sent = []

    async def endless():
        while len(sent) < 100:
            sent.append(1)
            yield b"x" * 1000

    async def story(user, pages):
        put = user.client.put
        large = {"Content-Length": str(100_000_000)}
        refused = await put("api/table?name=a.csv", content=endless(), headers=large)
        assert (refused.status_code, sent) == (413, [])  # not a byte was read
        assert "larger" in refused.json()["error"]
        assert (await put("api/table?name=a.csv", content=endless())).status_code == 413
        assert len(sent) <= 7
        assert (await user.client.post("api/jobs", content=b"[" * 100_000)).status_code == 413
        assert list(pages.sessions.folder.rglob("*.csv")) == []
        assert (await user.upload("x" * 5000))["event"] == "done"

    running(story, upload_bytes=5000)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("cities.csv", "cities.csv"),
        ("../../etc/cities.csv", "cities.csv"),
        ("C:\\x\\cities.TSV.GZ", "cities.tsv.gz"),
        ("<script>alert(1)</script>.csv", "script_.csv"),
        ("--long.csv", "long.csv"),
        (".hidden.csv", "hidden.csv"),
        (".csv", "table.csv"),
        ("a\x00\n\u202eb.csv", "a___b.csv"),
        ("é" * 5000 + ".csv", "é" * 80 + ".csv"),
        ("\U0001f600.csv", "_.csv"),
        ("numpy.py", None),
        ("json", None),
        ("", None),
    ],
)
def test_hostile_file_names(worker, given, kept):
    async def story(user, pages):
        answer = await user.client.put("api/table", params={"name": given}, content=TABLE)
        if kept is None:
            assert answer.status_code == 400
            assert "the known suffixes are .csv" in answer.json()["error"]
        else:
            assert (await user.ending(answer.json()))["result"]["title"] == kept

    running(story)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "expected a JSON object"),
        (b"[" * 60_000, "expected a JSON object"),
        (b"[]", "expected a JSON object"),
        (b'{"kind": "os.system"}', "got the kind 'os.system'"),
        (b'{"kind": "read"}', "got the kind 'read'"),
        (b'{"kind": ["train"]}', "got the kind"),
        (b'{"kind": "measure", "options": {"budget": 1e9}}', "budget: Input should be less than or equal to 120"),
        (b'{"kind": "measure", "options": {"budget": NaN}}', "budget: "),
        (b'{"kind": "measure", "options": {"path": "/etc/passwd"}}', "path: Extra inputs"),
        (b'{"kind": "measure", "options": [], "x": 1}', "a job has a kind"),
        (b'{"kind": "train", "options": {"d_model": 1}}', "n_heads: Field required"),
        (b'{"kind": "measure"}', "no table yet"),
    ],
)
def test_bad_requests_say_what_is_wrong(worker, body, says):
    async def story(user, pages):
        answer = await user.client.post("api/jobs", content=body)
        assert answer.status_code == 400
        assert says in answer.json()["error"]
        assert (await user.client.post("api/sample", json={"name": "../x"})).status_code == 400

    running(story)


def test_only_results_can_be_fetched(worker):
    worker("open('layer.safetensors', 'w').write('weights'); tell('done', result={})")

    async def story(user, pages):
        await user.upload()
        job = await user.start()
        await user.ending(job)
        files = f"api/jobs/{job['id']}/files/"
        found = await user.client.get(f"{files}layer.safetensors")
        assert found.text == "weights"
        assert found.headers["content-disposition"] == 'attachment; filename="layer.safetensors"'
        for name in ("worker.log", "cities.csv", "%2e%2e", "..%2f..%2fworker.py", "facts.csv", "epoch-1.json", ""):
            assert (await user.client.get(files + name)).status_code == 404

    running(story)


def test_a_result_is_never_that_of_another_table(worker):
    worker(
        """
        facts = open("upload/" + request["table"]["file"]).read()
        open("payload.json", "w").write(json.dumps({"about": facts, "layer": 1}))
        tell("done", result={})
        """,
        read="open('payload.json', 'w').write(json.dumps({'about': request['table']['title'], 'title': 't'}))",
    )

    async def story(user, pages):
        async def ask(table, path="api/jobs"):
            return await user.client.post(path, json={"kind": "measure", "table": table, "options": {}})

        await user.upload("first.csv", "first.csv")
        first = (await user.client.get("api/state")).json()["table"]["id"]
        job = (await ask(first)).json()
        assert ((await user.ending(job))["event"], job["table"]) == ("done", first)
        static = "api/explorer.html"
        assert (await user.client.get(static, params={"table": first, "jobs": job["id"]})).status_code == 200
        assert (await user.client.get(static, params={"table": first, "jobs": "x"})).status_code == 404

        put = (await user.client.put("api/table", params={"name": "second.csv"}, content="other")).json()  # another tab
        refused = await ask(first)
        assert (refused.status_code, "being read" in refused.json()["error"]) == (409, True)
        await user.ending(put)
        for table in (first, None, ["x"]):
            refused = await ask(table)
            assert (refused.status_code, "another table" in refused.json()["error"]) == (409, True)
        assert (await user.client.get(static, params={"table": first})).status_code == 409
        about_other = (
            await ask(put["id"])
        ).json()  # its payload is about "other", that of the table about "second.csv"
        await user.ending(about_other)
        refused = await user.client.get(static, params={"table": put["id"], "jobs": about_other["id"]})
        assert (refused.status_code, "another table" in refused.json()["error"]) == (409, True)

    running(story)


def test_an_upload_may_be_named_like_a_result(worker):
    worker("tell('done', result={'read': open('upload/' + request['table']['file']).read()})")

    async def story(user, pages):
        await user.upload(name="facts.csv")
        assert (await user.ending(await user.start()))["result"]["read"] == TABLE

    running(story)


# -------------------------------------------------------------------- workers that misbehave


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by SIGKILL"),
        ("sys.exit(3)", "ended with status 3"),
        ("print('x' * 1_000_000, flush=True)", "not an event"),
        ("print('[1]', flush=True)", "not an event"),
        ('print(\'{"event": "cancelled"}\', flush=True)', "not an event"),
        ('print(\'{"event": "done"}\', flush=True)', "not an event"),
        ("while True: tell('progress', text='x')", "not an event"),
        ("tell('progress', text='x')\nwhile True: pass", "stopped after 1 s, the time limit"),
        ("hog = bytearray(400_000_000)\nhog[:] = bytes([1]) * len(hog)\nwhile True: pass", "the memory limit of a job"),
    ],
)
def test_a_worker_that_misbehaves_ends_only_its_job(worker, code, says):
    worker(code)

    async def story(user, pages):
        await user.upload()
        generous, short = pages.limits.job_seconds, 1.0 if "time limit" in says else pages.limits.job_seconds
        object.__setattr__(pages.limits, "job_seconds", short)
        job = await user.start()
        ending = await user.ending(job)
        assert (ending["event"], says in ending["message"]) == ("failed", True), ending
        object.__setattr__(pages.limits, "job_seconds", generous)
        pid = next(one for one in pages.sessions._sessions.values()).jobs[job["id"]].pid
        worker("tell('done', result={'next': 1})")
        assert (await user.ending(await user.start()))["result"] == {"next": 1}
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    running(story, job_bytes=200_000_000)


def test_jobs_wait_for_their_turn_and_can_be_cancelled(worker):
    worker("tell('progress', text='x')\nwhile True: pass")

    async def story(ann, pages):
        bob = await User(ann.client._transport.app).open()
        await asyncio.gather(ann.upload(), bob.upload())
        first, second = await ann.start(), await ann.start()
        theirs = await bob.start()
        session = next(one for one in pages.sessions._sessions.values() if first["id"] in one.jobs)
        async for _, event in session.jobs[first["id"]].follow():
            if event["event"] == "progress":
                break
        assert session.jobs[second["id"]].state == "waiting"
        assert (await ann.start())["state"] == "waiting"
        assert "unfinished" in (await ann.start())["error"]
        pid = session.jobs[first["id"]].pid
        for job in (second, first):
            assert (await ann.client.delete(f"api/jobs/{job['id']}")).json()["state"] == "cancelled"
        assert (await ann.ending(first))["event"] == "cancelled"
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        await bob.client.delete(f"api/jobs/{theirs['id']}")

    running(story, running=1, unfinished=3)


def test_what_was_uploaded_for_nothing_is_deleted_at_once(worker):
    worker("", read="tell('failed', message='no') if 'bad' in request['table']['title'] else None")

    async def story(user, pages):
        put = (await user.client.put("api/table", params={"name": "slow.csv"}, content=TABLE)).json()
        await user.client.delete(f"api/jobs/{put['id']}")
        assert list(pages.sessions.folder.rglob("*.csv")) == []
        assert (await user.upload(name="bad.csv"))["event"] == "failed"
        await asyncio.gather(*pages.sessions.jobs._tasks.values())
        assert list(pages.sessions.folder.rglob("*.csv")) == []

    running(story)


def test_events_are_resumed_after_the_last_one_seen(worker):
    worker("for n in range(3): tell('point', epoch=n)\ntell('done', result={})")

    async def story(user, pages):
        await user.upload()
        job = await user.start()
        await user.ending(job)
        rest = await user.client.get(f"api/jobs/{job['id']}/events", headers={"Last-Event-ID": "3"})
        assert [line for line in rest.text.splitlines() if line.startswith("data")] == [
            'data: {"event": "point", "epoch": 2}',
            'data: {"event": "done", "result": {}}',
        ]

    running(story)


def test_a_worker_ends_with_its_server(worker, tmp_path):
    """The real worker reads its standard input to the end, and then ends."""

    async def story():
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "factrank.app.server.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        request = {"kind": "measure", "folder": str(tmp_path), "limits": asdict(Limits())}
        request |= {"table": {"sample": "countries"}, "options": {"budget": 100}}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        assert b"progress" in await process.stdout.readline()
        process.stdin.close()
        assert await process.wait() == 1

    asyncio.run(asyncio.wait_for(story(), 300))


def test_full_servers_forget_unused_sessions_first(worker):
    async def story(ann, pages):
        await ann.upload()
        bob = await User(ann.client._transport.app).open()
        carl = await User(ann.client._transport.app).open()  # takes the place of bob, who has nothing
        assert (await bob.client.get("api/state")).status_code == 401
        await carl.upload()
        assert (await User(ann.client._transport.app).client.get("")).status_code == 503
        assert (await ann.client.get("api/state")).status_code == 200
        await ann.client.delete("api/session")
        await ann.open()
        (empty,) = (one for one in pages.sessions._sessions.values() if not one.jobs)
        upload = empty.new_folder()  # is on its way
        assert (await User(ann.client._transport.app).client.get("")).status_code == 503
        assert upload.exists()

    running(story, sessions=2)
