"""`factrank assumptions`: verdicts, evidence and exit codes."""

import json

import numpy as np
import pytest


def test_a_model_that_holds_and_one_that_fails(call):
    code, out, err = call("assumptions", "random:bert", "--subsets", 50)
    assert (code, err) == (0, "")
    assert "298 of 298 have rank 16" in out
    assert "50 random 16-subsets, all independent: at 99% confidence" in out
    code, out, err = call("assumptions", "random:bert", "--stage", "positions", "--subsets", 50)
    assert (code, err) == (1, "")
    assert "dependent: 2 vectors (0, 1); 0.0% of 50 random 16-subsets independent" in out


def test_json_says_the_same(call, tmp_path):
    contexts = np.random.default_rng(0).normal(size=(6, 3, 5))
    contexts[2, 2] = 2 * contexts[2, 1]
    np.save(tmp_path / "a.npy", contexts)
    code, out, _ = call("assumptions", "a.npy", "--json")
    found = json.loads(out)
    assert code == 1
    assert found["verdicts"] == {
        "size": "proved",
        "queries": "proved",
        "contexts": "fails",
        "queries_in_general_position": "proved",
        "tokens_in_general_position": "fails",
    }
    assert found["tokens"]["witness"] == [7, 8]
    assert (found["full_contexts"], found["least_context_rank"], found["failing_context"]) == (5, 2, 2)
    assert (found["refuted"], found["proved"]) == (True, False)
    assert found["queries"]["lower"] == found["queries"]["upper"] == 5
    code, out, _ = call("assumptions", "a.npy")
    assert code == 1
    assert "5 of 6 have rank 3; least rank 2; first rank-deficient context: 2" in out
    assert "dependent: 2 vectors (7, 8)" in out


def test_a_list_of_vectors(call, tmp_path):
    np.save(tmp_path / "a.npy", np.vander(np.linspace(-1, 1, 6), 4))
    code, out, _ = call("assumptions", "a.npy")
    assert code == 0
    assert "assumed" not in out
    assert "Kruskal rank of the queries  4" in out
    assert call("assumptions", "a.npy", "--context-size", 3)[0] == 0
    code, out, _ = call("assumptions", "a.npy", "--context-size", 4)
    assert code == 1
    assert "4 >= 4" in out
    code, out, _ = call("assumptions", "a.npy", "--context-size", 7)
    assert code == 1
    assert "there are only 6 queries" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.npy",), "none.npy: no such file"),
        (("random:t5",), "expected one of vit, bert, gpt2"),
        (("random:bert", "--tolerance", "2"), "between 0 and 1"),
        (("random:bert", "--stage", "middle"), "middle"),
        (("random:bert", "--subsets", "0"), "--subsets"),
        (("random:bert", "--tolerance", "1e-15"), "at least d eps = 1.4e-14"),
        (("a.npy", "--examples", "500"), "a file of vectors does not take --examples"),
        (("a.npy", "--stage", "attention"), "a file of vectors does not take --stage"),
        (("a.npy", "--tensor", "a"), "omit --tensor"),
    ],
)
def test_mistakes_are_one_message_and_exit_code_2(call, tmp_path, arguments, message):
    np.save(tmp_path / "a.npy", np.eye(3))
    code, _, err = call("assumptions", *arguments)
    assert code == 2
    assert message in err
