"""`factrank ls` and `factrank study new`: what there is to choose from, and a study to start from."""

import json

import pytest

from factrank.cli.support.listings import LISTINGS
from factrank.databases.files.formats import FORMATS
from factrank.databases.generators.registry import GENERATORS
from factrank.databases.sample_tables import SAMPLES
from factrank.experiments.registry import families, registered_family
from factrank.families.attention.forms.registry import CONSTRUCTIONS, registered_form
from factrank.studies import CATALOGUE
from factrank.tensors.bounds.registry import BOUNDS
from toy_families import NumberFamily

NAMES = {
    "generators": list(GENERATORS.built_in),
    "families": ["attention", "memory", "factual_recall", "memoriser", "language"],
    "bounds": sorted(method.name for method in BOUNDS.built_in.values()),
    "formats": list(FORMATS.built_in),
    "studies": list(CATALOGUE),
    "samples": [f"sample:{name}" for name in SAMPLES],
}


@pytest.mark.parametrize("kind", NAMES)
def test_everything_is_listed_with_its_package(call, kind):
    code, out, _ = call("ls", kind, "--json")
    rows = [row for row in json.loads(out) if row["package"] == "factrank"]
    assert code == 0
    assert (sorted if kind == "bounds" else list)([row["name"] for row in rows]) == NAMES[kind]
    assert [row["name"] for row in rows if not row.get("description", "a bound is its name")] == []
    code, table, _ = call("ls", kind)
    assert code == 0
    assert [row["name"] for row in rows if row["name"].split(",")[0][:30] not in table] == []


def test_arguments_have_types_and_defaults(call, monkeypatch):
    rows = {row["name"]: row for row in json.loads(call("ls", "generators", "--json")[1])}
    assert rows["zipf"]["arguments"][-2:] == [
        {"name": "exponent", "type": "a number", "default": 1.0},
        {"name": "seed", "type": "an integer"},
    ]
    monkeypatch.setenv("COLUMNS", "200")  # an example in a docstring may have registered another generator
    assert "arguments: n_keys, n_queries, n_values, n_facts, exponent=1.0, seed" in call("ls", "generators")[1]


class Other:
    """A form that holds nothing.

    It has only a name.
    """

    name, estimated = "other", False

    def refusal(self, database, precision):
        return "never"

    shape = build = refusal


def test_forms_and_families_of_others_are_listed_with_what_they_are(call):
    with registered_form(Other()), registered_family(NumberFamily()):
        forms = {(row["family"], row["name"]): row for row in json.loads(call("ls", "forms", "--json")[1])}
        kinds = {row["name"]: row for row in json.loads(call("ls", "families", "--json")[1])}
    assert {name for family, name in forms if family == "attention"} == {*CONSTRUCTIONS, "other"}
    assert set(forms) - {("attention", "other")} == {
        (family.name, name) for family in families().values() for name in family.forms
    }
    other, number = forms["attention", "other"], kinds["number"]
    assert (other["description"], other["package"]) == ("A form that holds nothing.", __name__)
    assert number["models"] == ["number"]
    assert number["package"] == "toy_families"


def test_what_cannot_be_listed_is_an_error(call):
    code, _, said = call("ls", "nonsense")
    assert code == 2
    assert [kind for kind in LISTINGS if kind not in said] == []


@pytest.mark.parametrize(
    ("name", "file", "options"),
    [("width", "width.yaml", ["width.yaml"]), ("width.py", "width.py", ["--python", "width.py"])],
)
def test_a_new_study_runs_as_it_is(call, tmp_path, name, file, options):
    code, out, _ = call("study", "new", name)
    assert (code, out.split()[-1]) == (0, file)
    assert [path.name for path in tmp_path.iterdir()] == [file]
    code, out, said = call("study", "run", *options, "--no-report")
    assert (code, said) == (0, "")
    assert out.startswith("12 trials in ")
    assert "Recall rises with d_vo." in out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("there", "there.yaml: the file exists already; choose another name"),
        ("no/where", "there is no folder no"),
        ("two words", "the name of a study must be 1 to 100 letters"),
    ],
)
def test_a_new_study_overwrites_nothing(call, tmp_path, name, message):
    (tmp_path / "there.yaml").write_text("mine")
    code, _, said = call("study", "new", name)
    assert (code, message in said) == (2, True)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("there.yaml", "mine")]
