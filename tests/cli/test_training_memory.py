"""Training that fits into memory: batches, given or chosen, and what is refused."""

import json

SMALL = ["--d-model", "4", "--heads", "1", "--d-qk", "2", "--d-vo", "2"]


def test_facts_are_trained_in_batches(call, monkeypatch):
    arguments = ["train", "sample:astrid", *SMALL, "--seeds", "1", "--epochs", "2", "--stop", "never", "--json"]
    hashes = {}
    for given in ((), ("--batch-size", "2")):
        code, out, err = call(*arguments, "--engine", "lanes", *given)
        assert (code, err) == (0, "")
        hashes[given] = json.loads(out)["seeds"][0]["trial"]
    assert hashes[()] != hashes["--batch-size", "2"]
    # 8 facts with 4 values are 512 bytes of logits in a step; an eighth of 1,024 holds those of 2.
    monkeypatch.setattr("factrank.cli.support.training_memory.memory_room", lambda: 1023 + 1)
    assert call(*arguments, "--engine", "lanes")[2] == ""
    monkeypatch.setattr("factrank.cli.support.training_memory.memory_room", lambda: 1023)
    code, out, err = call(*arguments, "--engine", "lanes")
    assert code == 0
    assert "all 8 facts with 4 values" in err
    assert "in batches of 1 (--batch-size)" in err
    monkeypatch.setattr("factrank.host.memory.memory_room", lambda: 100)
    code, _, err = call(*arguments)
    assert code == 2
    assert "a layer of 80 parameters would take" in err
    code, _, err = call(*arguments, "--engine", "fused", "--batch-size", "2")
    assert code == 2
