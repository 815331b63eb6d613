"""Closed forms from outside: `construct` considers them, chooses them where they are best, and proves them."""

from dataclasses import replace

import pytest

from factrank import construct, generate
from factrank.errors import InputError
from factrank.families.attention.forms.parabola_layer import Parabola
from factrank.families.attention.forms.registry import CONSTRUCTIONS, register_form, registered_form

FACTS = generate("uniform", n_keys=5, n_queries=3, n_values=4, seed=0)


class Renamed:
    """The parabola under another name."""

    name, estimated, _form = "renamed", False, Parabola()

    def refusal(self, database, precision):
        return self._form.refusal(database, precision)

    def shape(self, database, precision):
        return self._form.shape(database, precision)

    def build(self, database, precision, search):
        return replace(self._form.build(database, precision, search), construction=self.name)


def test_a_form_from_outside_takes_part():
    with registered_form(Renamed()):
        found = construct(FACTS, only=["renamed"])
        assert found.form == "renamed"
        assert found.certificate.certified
        assert "renamed" in {candidate.construction for candidate in construct(FACTS).runners_up}
        with pytest.raises(InputError, match="already a construction 'renamed'"):
            register_form(type("Other", (Renamed,), {})())
    assert "renamed" not in CONSTRUCTIONS
    with pytest.raises(InputError, match="no construction 'renamed'"):
        construct(FACTS, only="renamed")


@pytest.mark.parametrize(("thing", "got"), [(Renamed, "the class Renamed"), ("renamed", "str")])
def test_what_is_no_form_is_refused(thing, got):
    with pytest.raises(InputError, match=f"expected a closed form with name, .* and build; got {got}"):
        CONSTRUCTIONS.register("renamed", thing)
