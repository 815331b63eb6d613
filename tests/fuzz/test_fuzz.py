"""The quick form of the fuzzers: the same few hundred inputs every time."""

import shutil

import pytest

from fuzz.kinds import KINDS
from fuzz.runner import try_input


@pytest.mark.parametrize("name", KINDS)
def test_hostile_inputs_give_an_answer_or_a_clear_error(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, quick, _ = KINDS[name]
    for number in range(quick):
        folder = tmp_path / str(number)
        failure = try_input(make, f"quick {name} {number}", folder)
        assert failure is None, f"{folder}: factrank {failure.arguments}\n{failure.complaint}"
        shutil.rmtree(folder)
