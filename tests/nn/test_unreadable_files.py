"""Files that were cut short: every reader of safetensors says so, and says it of no other file."""

import struct

import numpy as np
import pytest
import safetensors.numpy

from factrank.auditing.vector_files import read_array
from factrank.checkpoints.checkpoint import read_model
from factrank.errors import InputError
from factrank.experiments.store.kept_weights import weights_problems
from factrank.families.attention.layer_files import load_layer
from tiny_checkpoints import drawn_weights, write_checkpoint

WHOLE = safetensors.numpy.save({"a": np.arange(40.0), "b": np.arange(3)}, {"format": "factrank.layer"})
HEADER = 8 + struct.unpack("<Q", WHOLE[:8])[0]


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (0, "empty or truncated: 0 bytes"),
        (7, "empty or truncated: 7 bytes"),
        (8, f"truncated: it has 8 bytes, but its header alone should have {HEADER - 8}"),
        (HEADER - 1, f"truncated: it has {HEADER - 1} bytes, but its header"),
        (HEADER, f"truncated: it has {HEADER} bytes of {len(WHOLE)}$"),
        (len(WHOLE) - 1, f"truncated: it has {len(WHOLE) - 1} bytes of {len(WHOLE)}$"),
    ],
)
def test_a_truncated_file(tmp_path, length, message):
    path = tmp_path / f"{'0' * 64}.safetensors"
    path.write_bytes(WHOLE[:length])
    for read in (load_layer, lambda path: read_array(path, "a")):
        with pytest.raises(InputError, match=message) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}: ")
    (problem,) = weights_problems(tmp_path)
    assert problem == str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"key,query,value\nOslo,country,Norway\n",
        b"PK\x03\x04" + bytes(100),
        WHOLE + b"more",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 20) + b'{"a":{"data":[0,99]}}'[:20],
        struct.pack("<Q", 10**6) + b"[" * 10**6,
        struct.pack("<Q", 24) + b'{"a":{"data_offsets":7}}',
    ],
)
def test_what_is_no_truncated_file(tmp_path, content):
    path = tmp_path / "other.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a readable safetensors file"):
        load_layer(path)


def test_a_truncated_checkpoint(tmp_path):
    folder = write_checkpoint(tmp_path, "gpt2", drawn_weights("gpt2"))
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(InputError, match=r"model.safetensors: truncated: it has [\d,]+ bytes of"):
        read_model(folder)
