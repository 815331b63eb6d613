"""Streams: files are replaced whole, with the permissions that they had."""

from __future__ import annotations

import gzip
import os
import stat
from pathlib import Path

import pytest

from factrank.errors import InputError
from factrank.host.streams import replacing


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o664])
@pytest.mark.parametrize("name", ["plain.txt", "zipped.gz"])
def test_a_replaced_file_keeps_its_permissions(tmp_path: Path, name: str, mode: int) -> None:
    path = tmp_path / name
    path.write_bytes(b"old")
    path.chmod(mode)
    with replacing(path) as stream:
        (draft,) = (other for other in tmp_path.iterdir() if other != path)
        assert mode_of(draft) == mode  # from the first byte on
        stream.write(b"new")
    assert mode_of(path) == mode
    written = path.read_bytes()
    assert (gzip.decompress(written) if name.endswith(".gz") else written) == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_bytes_are_on_the_disk_before_they_get_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, events = tmp_path / "file", []
    fsync, rename = os.fsync, os.replace

    def synced(opened: int) -> None:
        status = os.fstat(opened)
        events.append("folder" if stat.S_ISDIR(status.st_mode) else status.st_size)
        fsync(opened)

    def replaced(source: Path, target: Path) -> None:
        events.append("renamed")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    with replacing(path) as stream:
        stream.write(b"12345")
    assert events == [5, "renamed", "folder"]


def test_a_disk_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(InputError, match="file: cannot be written: Input/output error"), replacing(path) as stream:
        stream.write(b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
