"""The program itself: interrupted while it starts, and in an environment in which JAX or numba cannot work."""

import os
import signal
import subprocess
import sys

import pytest

from factrank import __main__ as program
from factrank.cli.support import environment
from factrank.families.attention.fused.fused_threads import Threads

INTERRUPTED_IMPORT = """
import importlib.abc, os, signal, sys
from factrank.__main__ import main

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except BaseException:
                print("swallowed")
        return None

sys.meta_path.insert(0, Interrupting())
sys.argv = ["factrank", *{arguments}]
main()
"""


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("factrank.cli", ["samples"]), ("factrank.families.attention.layer_files", ["ask", "x.safetensors", "k", "q"])],
)
def test_interrupted_imports_end_at_once(module, arguments):
    """No module can swallow the interruption, and nothing in C is left half made."""
    done = run(INTERRUPTED_IMPORT.format(module=module, arguments=arguments))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "factrank: interrupted\n")


def test_an_interruption_is_told_apart_from_one_during_an_import(monkeypatch):
    monkeypatch.setattr(program, "_end", lambda *_: pytest.fail("nothing is being imported"))
    with pytest.raises(KeyboardInterrupt):
        program._interrupt(signal.SIGINT, sys._getframe())


def test_an_interrupted_command_says_so(call, monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["factrank.cli.tables.convert"], "write", interrupted)
    assert call("convert", "sample:astrid", "x.csv") == (130, "", "factrank: interrupted\n")


def test_the_command_line_starts_without_jax():
    code = "import sys, factrank.cli; print([name for name in ('jax', 'numba', 'altair') if name in sys.modules])"
    assert run(code).stdout == "[]\n"


def test_a_platform_that_jax_does_not_know():
    code = "import sys; sys.argv = ['factrank', 'construct', 'sample:astrid']; from factrank.cli import main; main()"
    done = run(code, JAX_PLATFORMS="xyz\x1b[31m")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("factrank: JAX does not start with JAX_PLATFORMS=xyz\\x1b[31m in the environment")


def test_other_errors_are_not_blamed_on_the_environment(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    assert environment.fault_of_environment(caught.value) is None


@pytest.mark.parametrize(("value", "missing"), [("1", True), ("0", False), ("", False)])
def test_without_a_compiler_there_is_no_fused_engine(monkeypatch, value, missing):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", value)
    assert ("NUMBA_DISABLE_JIT" in (Threads.missing() or "")) == missing
