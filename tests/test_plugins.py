"""Registries: entries from three sources, lazily loaded; a broken package harms nothing."""

from types import SimpleNamespace

import pytest

from factrank import plugins
from factrank.errors import InputError
from factrank.plugins import Registry


def accept_number(name, thing):
    if not isinstance(thing, int):
        raise InputError(f"expected a number; got {type(thing).__name__}")
    return name, thing


def numbers(accept=accept_number, **options):
    return Registry("number", "factrank.numbers", lambda: {"one": 1, "two": 2}, accept, **options)


@pytest.fixture
def offer(monkeypatch):
    """Make packages offer entry points; returns the names of those that were loaded."""

    def offering(**points):
        loaded = []

        def point(name, load):
            def loading():
                loaded.append(name)
                return load() if callable(load) else load

            return SimpleNamespace(name=name, load=loading, dist=SimpleNamespace(name=f"{name}-package"))

        found = [point(name, load) for name, load in points.items()]
        monkeypatch.setattr(plugins, "entry_points", lambda group: found)
        return loaded

    return offering


def test_packages_are_loaded_when_a_name_is_not_built_in(offer):
    loaded, registry = offer(three=3), numbers()
    assert registry["one"] == 1
    assert next(iter(registry)) == "one"
    assert dict(registry.built_in) == {"one": 1, "two": 2}
    registry.register("four", 4)
    assert loaded == []
    assert registry["three"] == 3
    assert list(registry) == ["one", "two", "four", "three"]
    assert "five" not in registry
    assert loaded == ["three"]
    assert [registry.package_of(name) for name in ("one", "three")] == ["factrank", "three-package"]


def test_a_broken_package_is_left_out_with_a_warning(offer):
    def broken():
        raise ModuleNotFoundError("no module named nonsense")

    offer(broken=broken, text="text", two=22, three=3)
    registry = numbers()
    with pytest.warns(UserWarning, match="left out") as heard:
        assert dict(registry) == {"one": 1, "two": 2, "three": 3}
    assert [str(warning.message) for warning in heard] == [
        "the number 'broken' of broken-package is left out: ModuleNotFoundError: no module named nonsense",
        "the number 'text' of text-package is left out: InputError: expected a number; got str",
        "the number 'two' of two-package is left out: InputError: there is already a number 'two', from factrank",
    ]


def test_a_package_may_register_what_its_entry_point_names(offer):
    """As a module with a decorated function does while it is imported."""
    registry = numbers()
    offer(three=lambda: registry.register("three", 3))
    assert registry["three"] == 3
    assert registry.package_of("three") == "three-package"
    assert registry.registered_by_call == frozenset()


def made_here():
    return lambda: None


def functions(**options):
    return Registry("function", "factrank.functions", lambda: {"print": print}, lambda *named: named, **options)


def test_the_same_lines_replace_themselves_and_others_clash():
    registry = functions()
    first, second = made_here(), made_here()
    registry.register("mine", first)
    assert registry.register("mine", second) is second
    assert registry["mine"] is second
    assert registry.package_of("mine") == __name__
    for name in ("mine", "print"):
        with pytest.raises(InputError, match=f"already a function '{name}': choose another name"):
            registry.register(name, lambda: None)
    with pytest.raises(InputError, match="no function 'print' was registered by a call"):
        registry.unregister("print")
    with registry.registered("mine", second):
        pass
    assert registry["mine"] is second
    with registry.registered("other", first):
        assert registry.registered_by_call == {"mine", "other"}
    assert "other" not in registry


def test_a_replacement_that_is_refused_leaves_what_was_there():
    def refuse_seconds(entry, others):
        if entry is second:
            raise InputError("not this one")

    first, second, left = made_here(), made_here(), []
    registry = functions(entering=refuse_seconds, leaving=left.append)
    registry.register("mine", first)
    with pytest.raises(InputError, match="not this one"):
        registry.register("mine", second)
    assert registry["mine"] is first
    registry.unregister("mine")
    assert left == [first, first]


def test_an_entry_from_before_comes_back_after_the_block():
    registry, first, second = functions(), made_here(), made_here()
    registry.register("mine", first)
    with registry.registered("mine", second):
        assert registry["mine"] is second
    assert registry["mine"] is first
