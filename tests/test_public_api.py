"""`import factrank` offers one list: complete, grouped in the documentation, with examples that run."""

import ast
import importlib
import importlib.machinery
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import factrank

ROOT = Path(__file__).resolve().parents[1]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture(scope="module")
def api():
    loader = importlib.machinery.SourceFileLoader("api", str(ROOT / "tools" / "api"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("api", loader))
    loader.exec_module(module)
    return module


def test_every_name_is_in_one_group(api):
    grouped = [name for names in api.GROUPS.values() for name in names.split()]
    assert sorted(grouped) == sorted(set(factrank.__all__) - {"__version__"})


def test_the_page_is_up_to_date(api):
    assert api.PAGE.read_text(encoding="utf-8") == api.page(), "run python tools/api"


def test_dir_lists_the_public_names():
    assert set(factrank.__all__) <= set(dir(factrank))


@pytest.mark.parametrize("page", DOCS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_need_nothing_but_the_public_names(page):
    inner = re.findall(r"^>>> (?:from factrank\.|import factrank\.).*", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert inner == []


def test_public_functions_have_an_example():
    """In the docstring or the documentation; a package that registers each kind of thing is examples/extension."""
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS)
    without = [
        name
        for name in factrank.__all__
        if inspect.isfunction(getattr(factrank, name))
        and not name.startswith("register_")
        and ">>>" not in (getattr(factrank, name).__doc__ or "")
        and not re.search(rf"^(>>>|\.\.\.) .*\b{name}\b", pages, re.MULTILINE)
    ]
    assert without == []


def test_the_import_loads_nothing_heavy():
    heavy = "numpy", "jax", "pyarrow", "scipy", "rich", "typer", "pydantic"
    code = f"import sys, factrank; dir(factrank); print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize("script", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_import_what_there_is(script):
    """They are too slow to run here; a name that moved breaks them all the same."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "factrank":
            module = importlib.import_module(node.module)
            for name in (alias.name for alias in node.names):
                if not hasattr(module, name):
                    importlib.import_module(f"{node.module}.{name}")
