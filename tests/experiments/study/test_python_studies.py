"""Studies in Python files: they run when asked to, and their mistakes are named."""

import pytest

from factrank.errors import InputError
from factrank.experiments.study.study_files import load_python_study
from factrank.families.attention.layer_shape import LayerShape

PYTHON = """
from factrank import LayerShape, Study, Trial, generated

facts = generated("unit", n=3)
STUDY = Study("mine", "Mine", None, "?", "!", lambda size: [Trial(facts, LayerShape(2, 1, 1, 1))])
"""


def test_a_python_study(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PYTHON)
    assert [trial.model for trial in load_python_study(path).trials_of("full")] == [LayerShape(2, 1, 1, 1)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1", "must define STUDY, a factrank.Study; got NoneType"),
        ("STUDY = 3", "got int"),
        ("\n1 / 0", "line 2: ZeroDivisionError"),
        ("\n\nfor", "line 3: SyntaxError"),
        ("import sys; sys.exit(3)", "line 1: SystemExit"),
        ("import nowhere_at_all", "ModuleNotFoundError"),
    ],
)
def test_mistakes_in_python_are_named(tmp_path, text, expected):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(InputError, match=expected):
        load_python_study(path)
    with pytest.raises(InputError, match="no such file"):
        load_python_study(tmp_path / "none.py")
