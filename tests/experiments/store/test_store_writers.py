"""Several writers, writers that are killed, and a disk that is really full: in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PRELUDE = f"""
import os, random, resource, signal, sys, time
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from made_up_results import made_up_result
from factrank.errors import InputError
from factrank import Store
store = Store(sys.argv[1])
Store(sys.argv[1] + '.before').append([made_up_result(0)])  # imports what children need

def fork(work):
    '''A child that works and ends; gives its number. Importing once and forking is faster than new processes.'''
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    return child
"""

KILLED = """
drawn, promised = random.Random(0), set()
for attempt in range(12):
    reader, writer = os.pipe()

    def work():
        for step in range(10**6):
            results = [made_up_result(1000 * attempt + 3 * step + at) for at in range(3)]
            store.append(results)
            os.write(writer, b"".join(result.trial.hash.encode() for result in results))

    child = fork(work)
    time.sleep(drawn.uniform(0, 0.12))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(writer)
    told = b""
    while piece := os.read(reader, 2**16):
        told += piece
    os.close(reader)
    promised |= {told[at : at + 64].decode() for at in range(0, len(told), 64)}
    assert store.problems() == [], store.problems()
    assert promised <= store.finished(), "something that was stored is lost"
table, curves = store.trials(), store.curves()
assert len(set(table["hash"].to_pylist())) == table.num_rows >= len(promised) > 0
assert curves.num_rows == 2 * table.num_rows
for row in table.to_pylist():
    assert row["loss"] == row["seed"] / 7
print(len(promised), "promised")
"""

TWO = """
def work(who):
    for step in range(15):
        store.append([made_up_result(seed, recall=who / 2) for seed in range(2 * step, 2 * step + 4)])

children = [fork(lambda who=who: work(who)) for who in (1, 2)]
while os.waitpid(children[0], os.WNOHANG) == (0, 0):
    store.trials(), store.curves(), store.finished()
    assert store.problems() == [], store.problems()
os.waitpid(children[1], 0)
table = store.trials()
assert table["seed"].to_pylist() != [] and sorted(table["seed"].to_pylist()) == list(range(32))
assert len(list((store.folder / "trials").iterdir())) == 30
assert not list((store.folder / "drafts").iterdir())
recall = dict(zip(table["hash"].to_pylist(), table["recall"].to_pylist()))
last = {row["hash"]: row["recall"] for row in store.curves().to_pylist() if row["epoch"] == 50}
assert last == recall, "each curve was written by the writer of its row"
print("equal")
"""

FULL = """
store.append([made_up_result(0)])
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for _ in range(2):
    try:
        store.append([made_up_result(seed) for seed in range(1, 200)])
    except InputError as error:
        assert str(store.folder) in str(error) and "cannot be written" in str(error), error
    else:
        raise AssertionError("the file was too large")
assert store.trials().num_rows == 1 and store.problems() == []
assert not list((store.folder / "drafts").iterdir())
print("kept")
"""

READ_ONLY = """
import tempfile
with tempfile.TemporaryDirectory() as folder:
    if os.geteuid() == 0:  # root writes everywhere
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    store = Store(folder + "/store")
    store.append([made_up_result(0)])
    before = store.trials()
    for places in ([store.folder / "trials"], [store.folder / "drafts"], [store.folder, *store.folder.iterdir()]):
        for place in places:
            place.chmod(0o555)
        for write in (lambda: store.append([made_up_result(1)]), store.require_writable):
            try:
                write()
            except InputError as error:
                assert str(store.folder) in str(error) and "ermission" in str(error), error
            else:
                raise AssertionError("written into a folder that is read-only")
        assert store.trials().equals(before) and store.problems() == []
        for place in places:
            place.chmod(0o755)
    part = next((store.folder / "trials").iterdir())
    part.chmod(0)
    assert store.trials().num_rows == 0 and "ermission" in store.problems()[0], store.problems()
    (store.folder / "trials").chmod(0)
    assert store.trials().num_rows == 0 and "ermission" in store.problems()[0], store.problems()
    (store.folder / "trials").chmod(0o755)
    part.chmod(0o644)
    assert store.trials().equals(before)
    os.seteuid(os.getuid())
    print("read")
"""

SCRIPTS = {
    "killed": (KILLED, "promised"),
    "two": (TWO, "equal"),
    "full": (FULL, "kept"),
    "read-only": (READ_ONLY, "read"),
}


@pytest.mark.parametrize(("script", "answer"), SCRIPTS.values(), ids=SCRIPTS)
def test_in_processes(tmp_path, script, answer):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PRELUDE + script, str(tmp_path / "store")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert run.returncode == 0, run.stderr
    assert answer in run.stdout
