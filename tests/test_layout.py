"""House rules that a machine can check: small files, small functions, rooms that introduce themselves."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LONGEST_FILE, LONGEST_FUNCTION = 500, 80


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_and_functions_are_small(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < LONGEST_FUNCTION, node.name


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_modules_say_what_they_are(path):
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring, "a module opens with what it is"
    if path.name == "__init__.py" and path.parent.name != "factrank":
        assert len(docstring.split()) >= 15, "a room says what it contains"


def test_import_is_light():
    """`import factrank` loads neither pandas-sized libraries nor our own heavy modules."""
    heavy = [
        "numpy",
        "scipy",
        "pyarrow",
        "altair",
        "typer",
        "uvicorn",
        "rich",
        "flint",
        "jax",
        "equinox",
        "optax",
        "factrank.tensors",
    ]
    code = f"import sys, factrank; print([name for name in {heavy} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_public_names_exist_and_are_listed():
    import factrank

    for name in factrank.__all__:
        assert getattr(factrank, name) is not None
        assert name in dir(factrank)
    with pytest.raises(AttributeError, match="nonsense"):
        factrank.nonsense  # noqa: B018


def test_measuring_needs_flint_only_for_exact_ranks():
    """What later runs on bare GPU machines must not need python-flint just to be imported."""
    code = "import sys, factrank.tensors, factrank.databases; print('flint' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "False"


OPTIONAL_FOR_TRIALS = [
    "altair",
    "cupy",
    "flint",
    "pandas",
    "polars",
    "pydantic",
    "pyoxigraph",
    "ray",
    "rich",
    "ruamel.yaml",
    "starlette",
    "threadpoolctl",
    "torch",
    "typer",
    "uvicorn",
    "vl_convert",
]


def test_what_a_trial_executes_needs_few_libraries():
    """Trials run on bare GPU machines: numpy, scipy, numba, jax, equinox, optax, pyarrow, safetensors suffice."""
    rooms = "factrank.experiments.training, factrank.readouts.recall_report, factrank.databases.database"
    code = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL_FOR_TRIALS})); import {rooms}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


ENGINES = ("optax", "numba", "cupy", "factrank.experiments", "factrank.families.attention.fused")
"""What trains, and what only training needs."""
LIGHT = ("factrank.experiments", "factrank.experiments.models", "factrank.experiments.models.constructed")
"""Faces of that room, and what a construction returns."""


def test_constructing_imports_no_engine():
    """Writing facts into a layer is done with formulas: nothing that trains, and no other family, is loaded for it."""
    code = (
        "import sys; from factrank.cli import app\n"
        "app(['construct', 'sample:astrid', '--budget', '0', '--json'], standalone_mode=False)\n"
        "print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = run.stdout.splitlines()[-1].split()
    assert [name for name in loaded if name.startswith(ENGINES) and name not in LIGHT] == []
    families = {name.split(".")[2] for name in loaded if name.startswith("factrank.families.")}
    assert families == {"attention"}
    assert sum(name.startswith("factrank") for name in loaded) <= 220


FAMILIES = ROOT / "src" / "factrank" / "families"
CORE = [path for path in SOURCES if FAMILIES not in path.parents]


def family_classes() -> set[str]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in FAMILIES.rglob("*.py")]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def asked_kinds(tree: ast.AST) -> set[str]:
    """The names of the classes by which a module tells values apart: isinstance, type(...) is, match."""
    asked = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            asked.append(node.args[1])
        elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node):
            asked.append(node)
        elif isinstance(node, ast.MatchClass):
            asked.append(node.cls)
    names = [one for kind in asked for one in ast.walk(kind)]
    return {
        one.id if isinstance(one, ast.Name) else one.attr for one in names if isinstance(one, ast.Name | ast.Attribute)
    }


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("isinstance(x, LayerShape | shapes.MemoryShape)", {"LayerShape", "shapes", "MemoryShape"}),
        ("type(x) is Memoriser", {"type", "x", "Memoriser"}),
        ("match x:\n  case LayerShape(d_model=1): pass", {"LayerShape"}),
        ("LayerShape(1, 1, 1, 1).d_model == 1", set()),
    ],
)
def test_how_kinds_are_asked_for(code, kinds):
    assert asked_kinds(ast.parse(code)) == kinds


def test_only_families_tell_their_models_apart():
    classes = family_classes()
    assert {"LayerShape", "MemoryShape", "FactualRecallShape", "Memoriser", "VectorExamples"} <= classes
    found = {path.name: asked_kinds(ast.parse(path.read_text(encoding="utf-8"))) & classes for path in CORE}
    assert {name: kinds for name, kinds in found.items() if kinds} == {}
