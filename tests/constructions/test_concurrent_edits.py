"""Edits of one file by several processes at once: none is lost, whatever path they know it by."""

import os
import subprocess
import sys
import textwrap

import pytest

from factrank.constructions import construct, edit_file, verify
from factrank.databases import uniform
from factrank.errors import InputError
from factrank.models import load_layer, save_layer

EDITORS = """
    import os, sys
    from factrank.constructions import edit_file, CONSTRUCTIONS
    children = []
    for editor, path in enumerate(sys.argv[2:]):  # they start with everything imported and nothing running
        if not (child := os.fork()):
            for turn in range(int(sys.argv[1])):
                edit_file(path, [(f"k{editor}", f"q{turn}", "new")])
            os._exit(0)
        children.append(child)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""
N_TURNS = 4


def test_every_edit_of_several_processes_is_in_the_file(tmp_path):
    path, link, folder = tmp_path / "layer.safetensors", tmp_path / "link.safetensors", tmp_path / "folder"
    construct(uniform(8, N_TURNS, 5, seed=0), only="parabola").save(path)
    link.symlink_to(path)
    folder.symlink_to(tmp_path)
    paths = [path, link, folder / path.name]
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(EDITORS), str(N_TURNS), *paths],
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    saved = load_layer(path)
    edited = {(key, query) for key, query, value in saved.database if value == "new"}
    assert edited == {(f"k{editor}", f"q{turn}") for editor in range(len(paths)) for turn in range(N_TURNS)}
    assert verify(saved.layer, saved.database).certified
    assert sorted(os.listdir(tmp_path)) == ["folder", "layer.safetensors", "link.safetensors"]


def test_a_file_that_another_program_changes_during_an_edit_is_left_to_it(tmp_path, monkeypatch):
    path, other = tmp_path / "layer.safetensors", tmp_path / "other.safetensors"
    constructed = construct(uniform(8, 2, 5, seed=0), only="parabola")
    constructed.save(path)
    save_layer(other, constructed.layer, constructed.database, notes={"from": "another program"})

    def slow(*arguments):
        os.replace(other, path)
        return verify(*arguments)

    monkeypatch.setattr(sys.modules[edit_file.__module__], "verify", slow)
    with pytest.raises(InputError, match=r"layer.safetensors: another program has changed it in the meantime"):
        edit_file(path, [("k0", "q0", "new")])
    assert load_layer(path).notes == {"from": "another program"}
