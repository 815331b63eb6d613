"""An attack on layer files: altered contents with a fitting checksum, given to every command that reads them.

Each command answers with an error, or rightly: what it says is compared with a slow evaluation of the tensors in the
file, in another language of arrays and in extended precision. None ends in a traceback, and none certifies a layer that
does not recall the facts.
"""

import json
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from typer.main import get_command

from factrank import cli
from factrank.databases.sample_tables import sample
from factrank.families.attention.searching import construct
from resealed import content, names_of, reseal

FACTS = list(sample("astrid"))
AXES = ("keys", "queries", "values")
WEIGHTS = ("embedding", "w_q", "w_k", "w_v", "w_o", "unembedding")
NAME = "layer.safetensors"
KEY, QUERY, VALUE = np.eye(3, dtype=np.int32)


# ---------------------------------------------------------------- what the file really answers


class Slow:
    """The layer of a file by its documentation, one pair at a time, in extended precision."""

    def __init__(self, path):
        self.tensors, metadata = content(path)
        self.notes = json.loads(metadata["notes"])
        self.keys, self.queries, self.values = (names_of(self.tensors, axis) for axis in AXES)
        self.stored = {(self.keys[k], self.queries[q], self.values[v]) for k, q, v in self.tensors["support"].tolist()}
        with np.errstate(all="ignore"):
            self.parts = {name: self.tensors[name].astype(np.longdouble) for name in WEIGHTS}

    def logits(self, key, query):
        w = self.parts
        x_k = w["embedding"][self.keys.index(key)]
        x_q = w["embedding"][len(self.keys) + self.queries.index(query)]
        with np.errstate(all="ignore"):
            stream = x_q.copy()
            for w_q, w_k, w_v, w_o in zip(w["w_q"], w["w_k"], w["w_v"], w["w_o"], strict=True):
                scores = np.array([x_q @ w_q @ (x @ w_k) for x in (x_k, x_q)]) / np.sqrt(np.longdouble(w_q.shape[1]))
                shares = np.exp(scores - scores.max())
                shares /= shares.sum()
                stream = stream + (shares[0] * (x_k @ w_v) + shares[1] * (x_q @ w_v)) @ w_o
            return stream @ w["unembedding"]

    def recall(self, facts):
        """Of each fact whether its logit is larger than those of all values that its key and query do not have."""
        fibers = {pair: {value for *other, value in facts if other == [*pair]} for pair in {fact[:2] for fact in facts}}
        found = []
        for key, query, value in facts:
            logits = dict(zip(self.values, self.logits(key, query), strict=True))
            others = [logit for name, logit in logits.items() if name not in fibers[key, query]]
            found.append(all(logits[value] > other for other in others))
        return found

    def best(self, key, query):
        """The answers that rounding may give."""
        logits = self.logits(key, query)
        if not np.isfinite(logits).all():
            return set(self.values)
        slack = 1e-2 * (1 + np.abs(logits).max())
        return {name for name, logit in zip(self.values, logits, strict=True) if logit >= logits.max() - slack}


# ---------------------------------------------------------------- what is altered


def tensor(name, change):
    """Put something else in the place of a tensor."""

    def altered(tensors, _):
        with np.errstate(all="ignore"):
            tensors[name] = np.ascontiguousarray(change(tensors[name]))

    return altered


def every_weight(change):
    def altered(tensors, metadata):
        for name in WEIGHTS:
            tensor(name, change)(tensors, metadata)

    return altered


def named(axis, change):
    """Other names on an axis; `change` takes and gives a list."""

    def altered(tensors, _):
        names = [name.encode() for name in change(names_of(tensors, axis))]
        tensors[f"vocabulary.{axis}.text"] = np.frombuffer(b"".join(names), np.uint8).copy()
        tensors[f"vocabulary.{axis}.offsets"] = np.cumsum([0, *map(len, names)], dtype=np.int64)

    return altered


def noted(note, *path_and_value):
    """Something else in a note, or in the place of all of it."""
    *path, value = path_and_value

    def altered(_, metadata):
        notes = json.loads(metadata["notes"])
        tree = json.loads(notes[note])
        if not path:
            tree = value
        branch = tree
        for step in path[:-1]:
            branch = branch[step]
        if path:
            branch[path[-1]] = value
        notes[note] = value if not path and isinstance(value, str) else json.dumps(tree)
        metadata["notes"] = json.dumps(notes)

    return altered


def shaped(**sizes):
    def altered(_, metadata):
        metadata["shape"] = json.dumps(json.loads(metadata["shape"]) | sizes)

    return altered


def both(*changes):
    def altered(tensors, metadata):
        for change in changes:
            change(tensors, metadata)

    return altered


def without_notes(_, metadata):
    metadata["notes"] = "{}"


def one_number(number):
    def altered(part):
        part.flat[part.size // 2] = number
        return part

    return altered


def moved_boundary(tensors, metadata):
    """The last key becomes the first query: the same rows under other names."""
    keys = names_of(tensors, "keys")
    named("keys", lambda names: names[:-1])(tensors, metadata)
    named("queries", lambda names: [keys[-1], *names])(tensors, metadata)
    tensor("support", lambda facts: facts[facts[:, 0] < len(keys) - 1] + np.array([0, 1, 0], np.int32))(
        tensors, metadata
    )


# fmt: off
FORGED = (
    ("certified", False), ("facts", 9), ("recalled", 7), ("margin", 1e300), ("margin", float("nan")),
    ("proved_margin", -1.0), ("proved_margin", None), ("weights", "0" * 64), ("database", "0" * 64),
    ("precision", "float64"), ("arithmetic", "none"), ("worst", ["a"]), ("silent_fibers", -1),
)
# fmt: on
EDITING = partial(noted, "construction", "editing")
ALTERED = {
    # stored facts
    "another value": tensor("support", lambda facts: facts ^ VALUE),
    "another value, no notes": both(
        without_notes,
        tensor("support", lambda facts: np.vstack([facts[:-1], facts[-1:] ^ VALUE])),
    ),
    "keys swapped": tensor("support", lambda facts: (facts * [-1, 1, 1] + [4, 0, 0]).astype(np.int32)),
    "no facts": tensor("support", lambda facts: facts[:0]),
    "no facts, no notes": both(without_notes, tensor("support", lambda facts: facts[:0])),
    "half the facts": tensor("support", lambda facts: facts[::2]),
    "facts twice": tensor("support", lambda facts: np.vstack([facts, facts])),
    "facts backwards": tensor("support", lambda facts: facts[::-1]),
    "every fact": tensor("support", lambda _: np.argwhere(np.ones((5, 3, 4))).astype(np.int32)),
    "a fact of nobody": tensor("support", lambda facts: facts + 9 * KEY),
    "a fact below zero": tensor("support", lambda facts: facts - 3 * QUERY),
    "facts of 64 bits": tensor("support", lambda facts: facts.astype(np.int64)),
    "facts of real numbers": tensor("support", lambda facts: facts.astype(np.float32)),
    "facts across": tensor("support", lambda facts: facts.T),
    # names
    "values swapped": named("values", lambda names: names[::-1]),
    "keys renamed": named("keys", lambda names: [f"{name}!" for name in names]),
    "queries turned": named("queries", lambda names: [*names[1:], names[0]]),
    "a name twice": named("values", lambda names: [names[0], *names[:-1]]),
    "an empty name": named("values", lambda names: ["", *names[1:]]),
    "a name that draws": named("values", lambda names: ["\x1b]0;x\x07\x1b[2J\u202e", *names[1:]]),
    "a long name": named("values", lambda names: ["x" * 100_000, *names[1:]]),
    "a name fewer": named("keys", lambda names: names[:-1]),
    "a name more": named("values", lambda names: [*names, "Oslo"]),
    "no names": named("keys", lambda _: []),
    "not UTF-8": tensor("vocabulary.keys.text", lambda text: text | 0x80),
    "offsets beyond": tensor("vocabulary.keys.offsets", lambda offsets: offsets * 2**40),
    "the last key a query": moved_boundary,
    "the last key a query, no notes": both(without_notes, moved_boundary),
    # numbers
    "zero": every_weight(lambda part: part * 0),
    "not a number": every_weight(lambda part: part * np.float32(np.nan)),
    **{f"a NaN in {name}": tensor(name, one_number(np.nan)) for name in ("embedding", "w_q", "w_o")},
    **{f"infinity in {name}": tensor(name, one_number(np.inf)) for name in WEIGHTS},
    "minus infinity": tensor("unembedding", one_number(-np.inf)),
    "large": every_weight(lambda part: part * np.float32(1e30)),
    "large in 64 bits": every_weight(lambda part: part.astype(np.float64) * 1e200),
    "small": every_weight(lambda part: part * np.float32(1e-30)),
    "smaller than normal": tensor("unembedding", lambda part: part * np.float32(1e-44)),
    "turned signs": tensor("unembedding", lambda part: -part),
    "turned values": tensor("unembedding", lambda part: part[:, ::-1]),
    "another key": tensor("embedding", lambda part: part[[1, 0, *range(2, len(part))]]),
    "a lean": tensor("unembedding", lambda part: part + np.linspace(0, 1e-5, part.shape[1], dtype=np.float32)),
    "64 bits": every_weight(lambda part: part.astype(np.float64)),
    "16 bits": every_weight(lambda part: part.astype(ml_dtypes.bfloat16)),
    "two precisions": tensor("w_v", lambda part: part.astype(np.float64)),
    "half precision": tensor("w_v", lambda part: part.astype(np.float16)),
    "integers": tensor("w_v", lambda part: part.astype(np.int32)),
    # sizes
    "flat": tensor("w_v", np.ravel),
    "across": tensor("unembedding", np.transpose),
    "a row more": tensor("embedding", lambda part: np.vstack([part, part[:1]])),
    "no heads": shaped(n_heads=0),
    "heads of a giant": shaped(n_heads=10**18),
    "heads of words": shaped(n_heads="3"),
    "width and heads exchanged": shaped(n_heads=1, d_vo=3),
    "another model": lambda _, metadata: metadata.update(model="PairTransformer"),
    # certificates
    **{f"a certificate with {name} {value!r}": noted("certificate", name, value) for name, value in FORGED},
    "a certificate of words": noted("certificate", "trust me"),
    "a deep certificate": noted("certificate", "[" * 10_000),
    # editing data
    "no editing": noted("construction", "editing", {}),
    "editing of words": noted("construction", "{"),
    "another construction": noted("construction", "construction", "magic"),
    "another code": EDITING("code", "binary words"),
    "labels beyond": EDITING("labels", "most", 10**6),
    "another shift": EDITING("labels", "shift", 5),
    "another output": EDITING("groups", 0, "output", 1),
    "no constants": EDITING("groups", 0, "constants", []),
    "a constant elsewhere": EDITING("groups", 0, "constants", [0]),
    "another start": EDITING("queries", "start", [1, 2, 0]),
    "one start": EDITING("queries", "start", [0, 0, 0]),
    "another group": EDITING("queries", "group", [0, 0, -1]),
    "starts beyond": EDITING("queries", "start", [0, 1, 2**60]),
}


# ---------------------------------------------------------------- the commands


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The bytes of an honest file."""
    path = tmp_path_factory.mktemp("sound") / NAME
    construct(sample("astrid"), only="parabola", budget=0.0).save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def command_line():
    """The commands, made once instead of for every call."""
    return get_command(cli.app)


@pytest.fixture
def quick_call(call, command_line, monkeypatch):
    monkeypatch.setattr(cli, "app", command_line)
    return call


@pytest.mark.parametrize("name", ALTERED)
def test_every_command_errs_or_answers_rightly(quick_call, sound, tmp_path, name):
    path = tmp_path / NAME
    path.write_bytes(sound)
    reseal(path, ALTERED[name])
    _check_all(quick_call, path)


def _check_all(quick_call, path):
    _check_verify(quick_call, path, "sample:astrid")
    _check_verify(quick_call, path)
    _check_recall(quick_call, path)
    _check_ask(quick_call, path, "Astrid", "born_in")
    _check_edit(quick_call, path, ("Astrid", "born_in", "Malaysia"))


def with_header(change):
    """Other words in the header of a file, which gives the place of every tensor."""

    def altered(whole):
        length = int.from_bytes(whole[:8], "little")
        header = change(whole[8 : 8 + length].decode()).encode()
        return len(header).to_bytes(8, "little") + header + whole[8 + length :]

    return altered


def with_entry(name, **claims):
    def change(header):
        entries = json.loads(header)
        return json.dumps(entries | {name: entries.get(name, entries["support"]) | claims})

    return with_header(change)


def twice(header):
    """The queries of heads again under the same name, now in the place of the keys."""
    return f'{header.rstrip()[:-1]},"w_q":{json.dumps(json.loads(header)["w_k"])}}}'


HEADERS = {
    "cut short": lambda whole: whole[:-1],
    "longer": lambda whole: whole + b"\0",
    "header beyond the file": lambda whole: (2**63 - 1).to_bytes(8, "little") + whole[8:],
    "header of a gigabyte": lambda whole: (10**9).to_bytes(8, "little") + whole[8:],
    "a tensor of 2^62": with_entry("support", shape=[2**62, 3]),
    "a tensor beyond the file": with_entry("support", data_offsets=[0, 2**62]),
    "a tensor that ends before it begins": with_entry("support", data_offsets=[96, 0]),
    "a tensor below the file": with_entry("support", data_offsets=[-96, 0]),
    "two tensors in one place": with_entry("support again"),
    "a tensor twice": with_header(
        lambda header: header[:-1].rstrip() + f',"w_q":{json.dumps(json.loads(header)["w_k"])}}}'
    ),
    "an unknown type": with_entry("support", dtype="\x1b[2J"),
    "another type": with_entry("support", dtype="F32"),
    "no shape": with_entry("support", shape=None),
    "deep": with_header(lambda header: "[" * 10_000 + header),
    "metadata of numbers": with_entry("__metadata__", format=1),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_claim_something_else(quick_call, sound, tmp_path, name):
    path = tmp_path / NAME
    path.write_bytes(HEADERS[name](sound))
    _check_all(quick_call, path)


def _said(call, *arguments):
    """What a command says in JSON, None where it is an error."""
    code, out, err = call(*arguments, "--json")
    assert code in (0, 1, 2)
    assert not set(out + err) & set("\x1b\x07\u202e")
    if code == 2:
        assert out == ""
        assert err.startswith("factrank: ")
        assert NAME in err or "sample:astrid" in err or " of this layer" in err
        assert len(err) < 2000
        return None, code
    return json.loads(out), code


def _check_verify(call, path, *table):
    found, code = _said(call, "verify", path, *table)
    if found is None:
        return
    slow = Slow(path)
    facts = FACTS if table else slow.stored
    assert (code == 0) == (found["certified"] and not found["complaints"])
    assert found["facts"] == len(set(facts))
    if found["certified"]:
        assert all(slow.recall(facts))
    if table and code == 0:
        answers = {fact[:2]: fact[2] for fact in FACTS}
        assert all(answers.get((key, query), value) == value for key, query, value in slow.stored)


def _check_recall(call, path):
    found, _ = _said(call, "recall", path, "sample:astrid")
    if found is None:
        return
    slow = Slow(path)
    logits = [slow.logits(key, query) for key, query, _ in FACTS]
    if np.isfinite(logits).all() and np.abs(logits).max() < 1e30:
        sure = [len(slow.best(key, query)) == 1 for key, query, _ in FACTS]
        if all(sure):
            assert found["recall"] == np.mean(slow.recall(FACTS))
    assert found["trained_on"]["facts"] == len(slow.stored)


def _check_ask(call, path, key, query):
    found, _ = _said(call, "ask", path, key, query)
    if found is None:
        return
    slow = Slow(path)
    values = {value for *pair, value in slow.stored if pair == [key, query]}
    assert found["answer"] in slow.best(key, query)
    assert set(found["facts"]) == values
    if found["verdict"] == "fact":
        assert found["answer"] in values
    elif found["verdict"] == "hallucination":
        assert not values
    else:
        assert values
        assert found["answer"] not in values or found["margin"] == 0


def _check_edit(call, path, fact):
    before = path.read_bytes()
    found, code = _said(call, "edit", path, "--set", *fact)
    if found is None or code == 1:
        assert path.read_bytes() == before
        return
    slow = Slow(path)
    assert fact in slow.stored
    assert found["certificate"]["certified"] is found["saved"] is True
    assert all(slow.recall(slow.stored))
    code, _, _ = call("verify", path)
    assert code == 0
