"""The live explorer as its users have it: the real command, real workers, a real browser."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest

import factrank
from explorer_in_browser import CHROMIUM, NARROW, WIDE, counts, until
from factrank.nn import to_arrays

pytest.importorskip("uvicorn", reason="extra 'app' is not installed")
playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

HOSTILE = "</script><script>window.hacked = 1</script>"
TABLE = f"key,query,value\nOslo,country,Norway\nLima,country,Peru\n{HOSTILE},country,\u202eNorway\nLima,sea,Pacific\n"
SIZES = {"d_model": "4", "heads": "1", "d_qk": "2", "d_vo": "2"}
SLOW = {"d_model": "64", "heads": "8", "d_qk": "16", "d_vo": "16", "Epochs": "50000"}


@contextmanager
def command(folder):
    """The command, with its temporary files in a folder; yields its address and its process."""
    run = [sys.executable, "-m", "factrank", "app", "--no-browser", "--json"]
    process = subprocess.Popen(
        run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(folder)}
    )
    try:
        yield json.loads("".join(process.stdout.readline() for _ in range(3)))["address"], process
    finally:
        is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # the tests run under nohup
        process.send_signal(signal.SIGTERM if is_ignored else signal.SIGHUP)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (0, "")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with command(folder) as (address, process):
        yield address, process
        left = list(folder.glob("factrank-app-*/*/*"))
        assert left, "the tests have left data in the sessions"
    assert list(folder.iterdir()) == []  # nothing after the signal


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def user(browser, address, **options):
    """A user with cookies of their own; the page must ask nobody else for anything, and complain of nothing."""
    context = browser.new_context(**{"viewport": WIDE, **options})
    page = context.new_page()
    page.set_default_timeout(180_000)  # under load, a worker may take a minute to compile
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda one: complaints.append(one.text) if one.type == "error" else None)
    page.goto(address)
    page.wait_for_selector(".sample")
    yield page
    assert [one for one in asked if not one.startswith((address, "data:", "blob:"))] == []
    assert [one for one in complaints if "status of 4" not in one] == []
    context.close()


def paste(page, text):
    page.fill("textarea", text)
    page.click("text=Read this text")
    page.wait_for_selector("text=Change table")


def do(page, tab, fields=()):
    page.click(f".bench .segments >> text={tab}")
    for label, value in dict(fields).items():
        page.fill(f".bench form label:text-is('{label}') + input", value)
    page.click("button.primary")


def download(page, link, folder):
    with page.expect_download() as found:
        page.click(f".downloads >> text={link}")
    path = folder / found.value.suggested_filename
    found.value.save_as(path)
    return path


# -------------------------------------------------------------------- one table, from the first look to the files


def test_a_table_is_measured_constructed_trained_planned_and_downloaded(server, browser, tmp_path):
    with user(browser, server[0], color_scheme="light") as page:
        anyone_can_use(page)
        paste(page, TABLE)
        assert page.text_content("#explorer h1") == "pasted.csv"
        facts = factrank.read(_written(tmp_path / "own.csv", TABLE))

        do(page, "Measure", {"Seconds to spend": "0"})
        page.wait_for_selector(".figures-row")
        size = factrank.measure(facts, 0.0)
        assert f"rank\n{size.rank.lower.value}" in page.inner_text(".figures-row")
        assert "How large is the table?" in page.inner_text(".size")

        do(page, "Construct")
        page.wait_for_selector(".outcome .chip.yes")
        assert counts(page)["Recall"] == "100%"
        assert "Certified: every fact is recalled" in page.inner_text(".certificate")
        layer = factrank.load(download(page, "Layer", tmp_path))
        assert factrank.verify(layer).certified
        assert layer.data == facts

        do(page, "Train", SLOW)  # cancelled: the constructed layer is shown again, and offered
        page.wait_for_selector(".told:has-text('Epoch')")
        assert page.is_disabled("button.primary")
        page.click(".job >> text=Cancel")
        page.wait_for_selector(".message:has-text('Cancelled.')")
        until(page, "explorer.model.partial === 1")
        assert "Certified: every fact is recalled" in page.inner_text(".certificate")
        shown = np.array(page.evaluate("Array.from(explorer.model.layer.parts.embedding.numbers)"), dtype=np.float32)
        assert np.array_equal(shown, np.asarray(layer.model.embedding).ravel())

        do(page, "Train", {**SIZES, "Epochs": "300", "Learning rate": "0.02"})
        page.wait_for_selector(".outcome .chip")
        trained_is_what_train_trains(page, facts, tmp_path)

        do(page, "Plan")
        page.wait_for_selector(".plans table")
        anyone_can_use(page)
        sizes = page.inner_text(".plans tbody tr >> nth=0").split()[:2]
        page.click(".plans >> text=Use >> nth=0")
        assert page.input_value(".bench form label:text-is('d_model') + input") == sizes[1]

        other = page.context.new_page()  # another tab of the same session has the same, until it takes another table
        other.set_default_timeout(180_000)
        other.goto(server[0])
        other.wait_for_selector(".plans table")
        until(other, "explorer.model.evaluation && explorer.model.payload.layer")
        other.click("text=Change table")
        other.click(".sample >> text=astrid")
        other.wait_for_selector("#explorer h1:text-is('astrid')")
        assert other.title() == "astrid · factrank explorer"
        do(page, "Construct")
        page.wait_for_selector(".message.no:has-text('another table')")
        page.reload()
        page.wait_for_selector("#explorer h1:text-is('astrid')")
        assert page.evaluate("window.hacked") is None


def trained_is_what_train_trains(page, facts, folder):
    """The numbers on the page, at the end and at an epoch in between, are those of `factrank.train`."""
    shape = factrank.LayerShape(4, 1, 2, 2)
    own = factrank.train(facts, shape, factrank.Training(epochs=300, learning_rate=0.02))
    anyone_can_use(page)
    saved = factrank.load(download(page, "Layer", folder))
    for name, part in to_arrays(own.weights).items():
        assert np.array_equal(part, to_arrays(saved.model)[name])
    curve = download(page, "Training curve", folder).read_text().splitlines()
    assert curve[0].startswith("epoch,loss,recall,recall_tau,hallucinations,missing")
    assert len(curve) == 1 + page.evaluate("Number(document.getElementById('epoch').max)") + 1
    at = 20
    page.evaluate(f"const e = document.getElementById('epoch'); e.value = {at}; e.dispatchEvent(new Event('input'))")
    epoch = int(curve[1 + at].split(",")[0])
    assert 0 < epoch < 300
    until(page, f"document.querySelector('.edits').textContent.startsWith('epoch {epoch}')")
    until(page, "explorer.model.partial === 1")
    between = factrank.train(facts, shape, factrank.Training(epochs=epoch, learning_rate=0.02)).weights
    found = np.array(page.evaluate("Array.from(explorer.model.layer.parts.embedding.numbers)"), dtype=np.float32)
    assert np.array_equal(found, np.asarray(between.embedding).ravel())
    assert f"Epoch {epoch}: loss" in page.inner_text(".told")
    assert "No certificate" in page.inner_text(".certificate")
    static = download(page, "This page", folder)
    assert "connect-src 'none'" in static.read_text(encoding="utf-8").replace("&#39;", "'")


def anyone_can_use(page):
    """Axe finds nothing serious, and nothing is wider than the window, on a desk by day and on a phone by night."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for viewport in (NARROW, WIDE):
        page.set_viewport_size(viewport)
        page.click("#theme")
        found = axe.run(page).response["violations"]
        serious = [
            (one["id"], [node["html"][:200] for node in one["nodes"]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def _written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


# -------------------------------------------------------------------- users


def test_two_users_at_once_see_only_their_own_and_outlive_a_killed_worker(server, browser):
    with user(browser, server[0]) as ann, user(browser, server[0], viewport=NARROW) as bob:
        ann.click(".sample >> text=astrid")
        bob.set_input_files("input[type=file]", _file("bob.csv", "key,query,value\nbob,is,here\n"))
        for page, title in ((ann, "astrid"), (bob, "bob.csv")):
            page.wait_for_selector("text=Change table")
            assert page.text_content("#explorer h1") == title
        states = [page.evaluate("fetch('api/state').then((answer) => answer.json())") for page in (ann, bob)]
        theirs = states[1]["table"]["id"]
        status = "(id) => fetch(`api/jobs/${id}/files/facts.csv`).then((answer) => answer.status)"
        assert (bob.evaluate(status, theirs), ann.evaluate(status, theirs)) == (200, 404)

        do(ann, "Train", {"Epochs": "50000"})
        ann.wait_for_selector(".told:has-text('Epoch')")
        os.kill(_trainer(server[1].pid), signal.SIGKILL)
        ann.wait_for_selector(".message.no:has-text('ended by SIGKILL')")
        do(ann, "Measure", {"Seconds to spend": "0"})
        ann.wait_for_selector(".figures-row")
        assert not ann.is_visible(".message")

        ann.click("text=Delete my data")
        ann.wait_for_selector("h1:text('Bring a table of facts')")
        assert ann.evaluate("fetch('api/state').then((answer) => answer.json())")["table"] is None
        assert bob.evaluate(status, theirs) == 200


def _trainer(pid):
    """The worker that trains: its current folder has snapshots. Others may be about to end, or wait for a job."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True)
    (busy,) = (int(one) for one in found.stdout.split() if any(Path(f"/proc/{one}/cwd/").glob("epoch-*.json")))
    return busy


# -------------------------------------------------------------------- what is refused


def _file(name, text):
    return {"name": name, "mimeType": "text/csv", "buffer": text.encode()}


def test_bad_tables_are_explained(server, browser):
    with user(browser, server[0]) as page:
        page.set_input_files("input[type=file]", _file("<b>cities.csv", "key,query,value\nOslo,country\n"))
        page.wait_for_selector(".message.no:has-text('b_cities.csv, line 2')")
        page.set_input_files("input[type=file]", _file("x.exe", "MZ"))
        page.wait_for_selector(".message.no:has-text('unknown file format')")
        page.evaluate("""() => {
          const moved = new DataTransfer();
          moved.items.add(new File([new Uint8Array(100e6)], "large.csv"));
          const input = document.querySelector("input[type=file]");
          input.files = moved.files;
          input.dispatchEvent(new Event("change"));
        }""")
        page.wait_for_selector(".message.no:has-text('100 MB are too much')")


def test_a_large_upload_is_refused_before_it_is_read(server):
    host, port, token = server[0].removeprefix("http://").replace(":", "/").strip("/").split("/")
    lines = (
        f"PUT /{token}/api/table?name=a.csv HTTP/1.1",
        f"Host: {host}:{port}",
        f"Origin: http://{host}:{port}",
        f"Cookie: {_cookie(host, port, token)}",
        "Content-Length: 100000000",
    )
    with socket.create_connection((host, int(port)), timeout=30) as asking:
        asking.sendall("\r\n".join([*lines, "", "key,query"]).encode())
        answer = b""
        while piece := asking.recv(4096):
            answer += piece  # the connection is closed without the rest
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"larger than this server takes" in answer


def _cookie(host, port, token):
    with socket.create_connection((host, int(port)), timeout=30) as asking:
        asking.sendall(f"GET /{token}/ HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        head = asking.recv(65536).split(b"\r\n\r\n")[0].decode()
    return next(line.split(": ", 1)[1].split(";")[0] for line in head.splitlines() if "set-cookie" in line.lower())


def test_other_sites_can_do_nothing(server, browser, tmp_path):
    """A page of another server on this machine, in the same browser: its requests carry cookies, and are refused."""
    _written(tmp_path / "index.html", "<title>other</title>")
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    other = HTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(tmp_path)))
    threading.Thread(target=other.serve_forever, daemon=True).start()
    try:
        with user(browser, server[0]) as page:
            stranger = page.context.new_page()
            stranger.goto(f"http://127.0.0.1:{other.server_port}/")
            ask = """(address) => fetch(address, {method: "POST", mode: "no-cors", credentials: "include",
                     body: '{"name": "astrid"}'}).then((answer) => answer.type, () => "blocked")"""
            assert stranger.evaluate(ask, f"{server[0]}api/sample") == "blocked"
            stranger.close()
            state = page.evaluate("fetch('api/state').then((answer) => answer.json())")
            assert state["jobs"] == []  # the page itself could have started one so
            own = """fetch("api/sample", {method: "POST", body: '{"name": "astrid"}'}).then((one) => one.status)"""
            assert page.evaluate(own) == 202
    finally:
        other.shutdown()
        other.server_close()
