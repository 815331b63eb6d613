"""Locks: changes by several processes follow each other, whatever name they know the file by."""

import os
import subprocess
import sys
import textwrap

import pytest

from factrank.errors import InputError
from factrank.host.locking import locked, waiting_for_others

COUNT = textwrap.dedent(
    """
    import os, sys
    from pathlib import Path
    from factrank.host.locking import locked

    path, target = Path(sys.argv[1]), Path(os.path.realpath(sys.argv[1]))
    for _ in range(40):
        with locked(path):
            number = int(path.read_text())
            draft = target.with_name(f"draft {os.getpid()}")
            draft.write_text(str(number + 1))
            os.replace(draft, target)
    """
)


def start(code, *arguments):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def test_no_change_is_lost_although_the_file_is_replaced(tmp_path):
    path, link = tmp_path / "count", tmp_path / "link"
    path.write_text("0")
    link.symlink_to(path)
    counters = [start(COUNT, name) for name in (path, link, tmp_path / "." / "count")]
    assert [counter.communicate()[0] for counter in counters] == ["", "", ""]
    assert [counter.returncode for counter in counters] == [0, 0, 0]
    assert path.read_text() == "120"
    assert sorted(os.listdir(tmp_path)) == ["count", "link"]


HOLD = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from factrank.host.locking import locked

    with locked(Path(sys.argv[1])):
        print("locked", flush=True)
        time.sleep(600)
    """
)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_process_that_is_killed_keeps_no_lock(tmp_path, kind):
    path = tmp_path / kind
    path.touch() if kind == "file" else path.mkdir()
    holder = start(HOLD, path)
    assert holder.stdout.readline() == "locked\n"
    holder.kill()
    holder.communicate()
    with locked(path) as require_unchanged:
        require_unchanged()
    with waiting_for_others(path):
        pass


def test_changes_of_programs_that_take_no_locks_are_noticed(tmp_path):
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_text("one")
    other.write_text("two")
    with locked(path) as require_unchanged:
        require_unchanged()
        os.replace(other, path)
        with pytest.raises(InputError, match="file: another program modified the file"):
            require_unchanged()
    with locked(path) as require_unchanged:
        path.unlink()
        with pytest.raises(InputError, match="another program modified the file"):
            require_unchanged()


def test_what_cannot_be_locked(tmp_path, monkeypatch):
    path = tmp_path / "file"
    with pytest.raises(InputError, match="file: cannot be read: No such file"), locked(path):
        pass
    with waiting_for_others(path):
        path.touch()

    def fail(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", fail)
    with pytest.raises(InputError, match=r"cannot be locked \(No locks available\)"), locked(path):
        pass
    with waiting_for_others(path):
        pass
