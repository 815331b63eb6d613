"""The house: rooms of few files, each with a face through which the others come in, and one meaning for every name."""

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "factrank"
MOST_FILES = 16
OPEN = ("factrank", "factrank.cli", "factrank.cli.support", "factrank.studies")
"""Where modules are imported by their own names: single files, commands, and studies one by one."""


def module_name(path):
    parts = ("factrank", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}
PACKAGES = sorted(name for name, path in MODULES.items() if path.name == "__init__.py")
FACES = [name for name in PACKAGES if "lazy_face(" in MODULES[name].read_text(encoding="utf-8")]


def room_of(module):
    return module if module in PACKAGES else module.rpartition(".")[0]


def imports_of(module):
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module in MODULES]


@pytest.mark.parametrize("package", PACKAGES)
def test_rooms_are_small(package):
    assert len(list(MODULES[package].parent.glob("*.py"))) <= MOST_FILES


TESTS = Path(__file__).parent
OF_THE_WHOLE = ("examples", "fuzz", "golden", "reproductions", "tools")
"""Folders of tests that are about no single room."""


def test_tests_lie_in_the_rooms_of_what_they_test():
    files = [path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")]
    folders = {path.parent for path in files if path.parts[0] not in OF_THE_WHOLE}
    assert [folder for folder in folders if not (SOURCE / folder).is_dir()] == []
    names = Counter(path.name for path in files)
    assert [name for name, count in names.items() if count > 1] == [], "test modules are known by their file names"


def test_other_rooms_are_entered_through_their_faces():
    found = []
    for module in MODULES:
        room = room_of(module)
        for node in imports_of(module) if module not in FACES else ():
            wanted = room_of(node.module)
            inside = room == wanted or room.startswith(f"{wanted}.")
            if node.module not in PACKAGES and not inside and not wanted.startswith(OPEN[1:]) and wanted != OPEN[0]:
                found.append(f"{module}: from {node.module} import {', '.join(one.name for one in node.names)}")
    assert found == []


@pytest.mark.parametrize("package", FACES)
def test_faces_offer_what_they_list(package):
    face = import_module(package)
    modules = {name.rpartition(".")[2] for name in MODULES if name.rpartition(".")[0] == package}
    assert set(face.__all__) <= set(dir(face))
    for name in face.__all__:
        assert getattr(face, name) is not None
        assert name not in modules, "a module of this name would hide it"
    with pytest.raises(AttributeError, match="nonsense"):
        face.nonsense  # noqa: B018


def test_a_name_stands_for_one_thing_in_all_faces():
    """Also across rooms: what is imported under one name is one object."""
    homes = defaultdict(set)
    for package in FACES:
        for node in imports_of(package):
            for one in node.names:
                homes[one.name].add(node.module)
    homes.pop("lazy_face")
    assert {name: sorted(modules) for name, modules in homes.items() if len(modules) > 1} == {}


def test_no_two_public_classes_share_a_name():
    names = Counter(
        node.name
        for path in MODULES.values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_importing_one_name_loads_only_what_it_needs():
    code = (
        "import sys; from factrank.databases import Database; print(*(one for one in sys.modules if 'factrank' in one))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "factrank.databases.database" in loaded
    assert not {"factrank.databases.files", "factrank.databases.generators", "factrank.host"} & loaded
