"""Edited files: they stay whole when a process is killed, and lose no edit when several processes edit one at once."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from factrank.certificates.certification import certify
from factrank.databases.generators.random_tables import uniform
from factrank.databases.sample_tables import sample
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.families.attention.editing.fact_edits import edit, edit_file
from factrank.families.attention.layer_files import load_layer, save_layer
from factrank.families.attention.searching import construct


def facts_of(database):
    return {(key, query): value for key, query, value in database}


EDITORS = """
    import os, sys
    from factrank.families.attention.editing.fact_edits import edit_file
    from factrank.families.attention.forms.registry import CONSTRUCTIONS
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
    save_layer(other, constructed.model, constructed.data, notes={"from": "another program"})

    def slow(*arguments):
        os.replace(other, path)
        return certify(*arguments)

    monkeypatch.setattr(sys.modules[edit_file.__module__], "certify", slow)
    with pytest.raises(InputError, match=r"layer.safetensors: another program modified the file in the meantime"):
        edit_file(path, [("k0", "q0", "new")])
    assert load_layer(path).notes == {"from": "another program"}


def test_an_edited_file_is_what_it_would_be_in_memory(tmp_path):
    path = tmp_path / "a.safetensors"
    found = construct(sample("astrid"))
    found.save(path)
    changes = [("Colin", "born_in", "Singapore"), ("Bo", "lives_in", "Malaysia")]
    edited, loaded = edit_file(path, changes), load_layer(path)
    assert loaded.database == edited.saved.database == edit(found.to_saved(), changes).saved.database
    assert loaded.notes == edited.saved.notes
    assert verify(loaded.layer, loaded.database).weights == edited.certificate.weights


def test_what_cannot_be_done_leaves_the_file_alone(tmp_path):
    path = tmp_path / "a.safetensors"
    construct(sample("astrid"), only="binary").save(path)
    old = path.read_bytes()
    with pytest.raises(InputError, match=r"a.safetensors: no free place for 'Oslo'"):
        edit_file(path, [("Colin", "born_in", "Oslo")])
    with pytest.raises(InputError, match=r"missing.safetensors: no such file"):
        edit_file(tmp_path / "missing.safetensors", [("Colin", "born_in", "Oslo")])
    assert path.read_bytes() == old


EDITOR = """
    import os, sys
    from factrank.families.attention.editing.fact_edits import edit_file
    from factrank.families.attention.forms.registry import CONSTRUCTIONS
    for line in sys.stdin:  # one child for each line: it starts with everything imported and nothing running
        child = os.fork()
        if not child:
            for number in range(10**9):
                edit_file(sys.argv[1], [("k0", "q0", f"v{number % 5}"), ("k1", "q1", f"v{number % 4}")])
                print("edited", flush=True)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("gone", flush=True)
"""
N_KILLS = 10


def test_killed_while_editing(tmp_path):
    """kill -9 at ten moments: the file is always one of those that were written whole."""
    path, rng = tmp_path / "killed.safetensors", np.random.default_rng(0)
    database = uniform(400, 8, 5, seed=0)
    construct(database, only="binary").save(path)
    rest = {pair: value for pair, value in facts_of(database).items() if pair not in {("k000", "q0"), ("k001", "q1")}}
    code = textwrap.dedent(EDITOR).replace('"k0"', '"k000"').replace('"k1"', '"k001"')
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "jax"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    editor = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | cache,
    )
    with editor:
        for _ in range(N_KILLS):
            editor.stdin.write("go\n")
            editor.stdin.flush()
            pid, line = None, ""
            while pid is None or line != "edited\n":
                line = editor.stdout.readline()
                pid = int(line) if line.strip().isdigit() else pid
            time.sleep(rng.uniform(0.0, 0.1))
            os.kill(pid, signal.SIGKILL)
            while editor.stdout.readline() != "gone\n":
                pass
            saved = load_layer(path)
            facts = facts_of(saved.database)
            values = facts.pop(("k000", "q0")), facts.pop(("k001", "q1"))
            assert facts == rest
            assert values in {(f"v{i % 5}", f"v{i % 4}") for i in range(20)}
            certificate = verify(saved.layer, saved.database)
            assert certificate.certified
            assert certificate.to_dict() == json.loads(saved.notes["certificate"]) | {"worst": list(certificate.worst)}
        editor.stdin.close()
