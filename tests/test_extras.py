"""Every extra that is installed has a version that pyproject.toml allows; a missing one is skipped, with the reason."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENVIRONMENT = Path(__file__).parents[1] / "docs" / "reference" / "environment.md"
NEEDED = [(extra, line) for extra, lines in PROJECT["optional-dependencies"].items() for line in lines]


@pytest.mark.parametrize(("extra", "line"), NEEDED)
def test_installed_extras_are_in_range(extra, line):
    requirement = Requirement(line)
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        pytest.skip(f"extra {extra!r} is not installed: pip install 'factrank[{extra}]'")
    assert requirement.specifier.contains(installed, prereleases=True)


def test_the_lock_satisfies_the_project():
    lines = (Path(__file__).parents[1] / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    elsewhere = ("cuda", "track", "transformer-lens")
    needed = [*PROJECT["dependencies"], *(line for extra, line in NEEDED if extra not in elsewhere)]
    for requirement in map(Requirement, needed):
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)], prereleases=True), requirement


def test_every_extra_is_documented():
    _, _, table = ENVIRONMENT.read_text(encoding="utf-8").partition("## Extras")
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == sorted(PROJECT["optional-dependencies"])
