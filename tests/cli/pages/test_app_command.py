"""`factrank app`: what keeps it from starting is said in one line."""

import socket
import sys

import pytest


def test_a_port_in_use_is_named(call):
    pytest.importorskip("uvicorn", reason="extra 'app' is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = call("app", "--no-browser", "--port", port)
    assert (code, out) == (2, "")
    assert f"port {port} of 127.0.0.1 cannot be used: Address already in use; choose another --port" in err


def test_a_missing_extra_is_named(call, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("factrank.app.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, out, err = call("app", "--no-browser")
    assert (code, out) == (2, "")
    assert "pip install 'factrank[app]'" in err
