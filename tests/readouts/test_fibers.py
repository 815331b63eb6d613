import subprocess
import sys

from hypothesis import given

from factrank.readouts.fiber_values import fiber_sizes, fibers_of
from strategies import as_database, tensors


@given(tensors())
def test_each_fact_carries_the_values_of_its_fiber(tensor):
    database = as_database(tensor)
    fibers, sizes = fibers_of(database), fiber_sizes(database)
    assert fibers.shape[0] == sizes.shape[0] == len(database)
    assert fibers.shape[1] == max(sizes.tolist(), default=1)
    for (key, query, value), row, size in zip(database.triples.tolist(), fibers.tolist(), sizes, strict=True):
        expected = {v for k, q, v in database.triples.tolist() if (k, q) == (key, query)}
        assert value in expected
        assert set(row) == expected
        assert size == len(expected)


def test_it_needs_no_jax():
    code = (
        "import sys, types; package = types.ModuleType('factrank.readouts');"
        "import factrank, pathlib; package.__path__ = [str(pathlib.Path(factrank.__file__).parent / 'readouts')];"
        "sys.modules['factrank.readouts'] = package; import factrank.readouts.fiber_values; print('jax' in sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "False"
