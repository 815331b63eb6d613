"""What a machine has: limits of memory are seen, and what does not fit is refused with numbers."""

import shlex
import subprocess
import sys

import pytest

from factrank.errors import InputError
from factrank.host import memory as machine

GIB = 2**30


def test_the_room_is_the_least_limit(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "CONTAINER_LIMIT", limit)
    monkeypatch.setattr(machine, "_address_space", lambda: None)
    whole = machine.memory_room()
    limit.write_text("max\n")
    assert machine.memory_room() == whole
    limit.write_text("123456\n")
    assert machine.memory_room() == 123456
    monkeypatch.setattr(machine, "_address_space", lambda: 1000)
    assert machine.memory_room() == 1000


def test_what_does_not_fit_is_refused_with_numbers(monkeypatch):
    monkeypatch.setattr(machine, "memory_room", lambda: 2 * GIB)
    machine.require_memory(2 * GIB, "a table", "choose a smaller one")
    with pytest.raises(
        InputError, match=r"a table would take 3.0 GiB of memory, this machine has 2.0: choose a smaller"
    ):
        machine.require_memory(3 * GIB, "a table", "choose a smaller one")


@pytest.mark.parametrize(("command", "code"), [(["construct", "sample:astrid"], 2), (["samples"], 0)])
def test_too_little_address_space_for_compilers_is_a_message(command, code):
    """JAX and numba would end the process with a signal."""
    program = shlex.join([sys.executable, "-c", "from factrank.cli import main; main()", *command])
    limited = f"ulimit -v {3 * GIB // 2 // 1024}; exec {program}"
    run = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=False)
    assert run.returncode == code
    assert ("limit is 1.5 GiB: raise it (ulimit -v)" in run.stderr) == (code == 2)
