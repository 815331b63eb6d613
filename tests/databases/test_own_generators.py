"""Generators of one's own: registered by a decorator, then found by name wherever a built-in one is."""

from typing import Literal

import pytest

from factrank import Database, LayerShape, Trial, generate, generated, generator, read
from factrank.cli.support.study_templates import YAML
from factrank.databases.generators.argument_types import argument_type, value_of_text
from factrank.databases.generators.registry import GENERATORS, arguments_of
from factrank.errors import ConflictError, InputError
from factrank.experiments.store.columns import trial_columns
from factrank.experiments.study.study_files import load_study


@pytest.fixture(autouse=True)
def forget():
    """Forget what a test, or an example in the documentation, registered."""

    def forget_all():
        for name in GENERATORS.registered_by_call:
            GENERATORS.unregister(name)

    forget_all()
    yield
    forget_all()


def clock(hours: int, *, step: float = 1.0, words: Literal["am", "pm"] = "am", sizes: tuple[int, ...] = (), seed: int):
    return [(f"{words}{hour}", "next", (hour + int(step) + seed) % hours) for hour in range(hours)]


def test_it_is_called_by_name_with_checked_arguments():
    assert generator(clock) is clock
    assert generate("clock", hours=12, step=5, seed=1) == Database.from_facts(clock(12, step=5, seed=1))
    assert generated("clock", hours=3, seed=0).build().n_facts == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hours": "3", "seed": 0}, "clock: hours must be an integer, got '3'; clock takes hours, step (optional), "),
        ({"hours": True, "seed": 0}, "clock: hours must be an integer, got True"),
        ({"hours": 3, "seed": 0, "step": "1"}, "clock: step must be a number, got '1'"),
        ({"hours": 3, "seed": 0, "words": "om"}, "clock: words must be one of am, pm, got 'om'"),
        ({"hours": 3, "seed": 0, "sizes": [1, "2"]}, "clock: sizes must be a list of integers, got [1, '2']"),
        ({"hours": 3, "minutes": 4}, "clock: unknown minutes, missing seed; clock takes hours, "),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    generator(clock)
    with pytest.raises(InputError) as error:
        generate("clock", **arguments)
    assert str(error.value).startswith(message)


def test_it_has_the_name_of_the_function_with_dashes_or_a_given_one():
    @generator
    def two_words(n: int):
        return [(n, "is", n)]

    @generator(name="other.name")
    def again(n: int):
        return two_words(n)

    assert generate("two-words", n=1) == generate("other.name", n=1)
    with pytest.raises(InputError, match=r"no generator 'two_words'; .* did you mean two-words\?"):
        generate("two_words", n=1)


def test_a_notebook_cell_may_run_twice():
    def cell(value):
        @generator
        def mine(n: int):
            return [("k", "q", value)] * n

    cell("old")
    cell("new")
    assert generate("mine", n=1).fiber("k", "q") == ("new",)

    def mine(n: int, m: int):
        return []

    with pytest.raises(InputError, match="already a generator 'mine': choose another name"):
        generator(mine)
    with pytest.raises(InputError, match="already a generator 'uniform'"):
        generator(name="uniform")(mine)


def bare(n):
    return []


def starred(*sizes: int):
    return []


def unstorable(table: dict):
    return []


def listed(sizes: "list[int]"):
    return []


def unresolved(n: "Nonsense"):  # noqa: F821
    return []


def reserved(generator: str):
    return []


def wrong_default(n: int = "3"):
    return []


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (bare, "bare: argument n needs an annotation, such as n: int"),
        (starred, "starred: the arguments of a generator are given by name"),
        (unstorable, "unstorable: argument table: arguments are annotated as int, .*; got dict"),
        (listed, r"listed: argument sizes: .* Sequence\[...\]"),
        (unresolved, "unresolved: the arguments of a generator must be known and annotated: .*Nonsense"),
        (reserved, "reserved: an argument cannot be called 'generator'"),
        (wrong_default, "wrong-default: the default of n must be an integer, got '3'"),
        (lambda n: [], "the name of a generator is a word"),
    ],
)
def test_functions_that_trials_cannot_use_are_refused(function, message):
    with pytest.raises(InputError, match=message):
        generator(function)
    assert not GENERATORS.registered_by_call


def test_what_it_returns_and_raises_is_reported_with_its_name():
    returned = {
        "text": "abc", "number": 4, "gaps": [("k", "q", None)], "twice": [("k", "q", "a"), ("k", "q", "b")],
        "mapping": {"k": "q"}, "multi": Database.from_facts([("k", "q", "a"), ("k", "q", "b")], multi=True),
    }  # fmt: skip

    @generator
    def shop(what: str):
        return returned[what]

    assert generate("shop", what="multi").n_facts == 2
    for what, message in {
        "text": "shop: expected a Database or .* facts; got str",
        "number": "shop: expected a Database or .* facts; got int",
        "mapping": "shop: expected a Database or .* facts; got dict",
        "gaps": "shop: fact 1: the value is empty",
        "missing": "shop: KeyError: 'missing'",
    }.items():
        with pytest.raises(InputError, match=message):
            generate("shop", what=what)
    with pytest.raises(ConflictError, match="shop: "):
        generate("shop", what="twice")


def test_sizes_of_its_own_are_not_taken_for_those_of_a_tensor():
    """`n` of a named tensor is a size and is checked against the memory; here it is whatever the function says."""

    @generator
    def modulus(n: int):
        return [("k", "q", n % 7)]

    assert generate("modulus", n=10**15).n_facts == 1


def test_arguments_on_the_command_line_are_read_by_their_annotation():
    generator(clock)
    typed = {"hours": "4", "step": "2.5", "words": "pm", "sizes": "[1, 2]", "seed": "x"}
    parameters = arguments_of("clock")
    read = {name: value_of_text(parameters[name].annotation, text) for name, text in typed.items()}
    assert read == {"hours": 4, "step": 2.5, "words": "pm", "sizes": (1, 2), "seed": "x"}


@pytest.mark.parametrize(
    ("annotation", "fitting", "others", "words"),
    [
        (bool, [True], [1, "true"], "true or false"),
        (str | None, ["a", None], [1], "text or None"),
        (tuple[str, str], [("a", "b"), ["a", "b"]], [("a",), "ab"], "a pair of texts"),
        (Literal[1, "a"], [1, "a"], [True, 1.0, "b"], "one of 1, a"),
        (tuple[tuple[int, int], ...], [[(1, 2)], ()], [[(1, 2, 3)], [1]], "a list of pairs of integers"),
        (float, [1, 1.5], [True, "1"], "a number"),
    ],
)
def test_what_fits_an_annotation(annotation, fitting, others, words):
    kind = argument_type(annotation)
    assert kind.one == words
    assert [value for value in fitting if not kind.fits(value)] == []
    assert [value for value in others if kind.fits(value)] == []


def columns_of_data(trial):
    return {name.partition(".")[2]: repr(cell) for name, cell in trial_columns(trial).items() if name[:4] == "data"}


def test_its_arguments_are_columns_of_results():
    """Real ones are real numbers, also if a trial writes them as integers; a chart names them as its axes."""
    generator(clock)
    trial = Trial(generated("clock", hours=3, step=1, seed=0), LayerShape(d_model=2, n_heads=1, d_qk=1, d_vo=1))
    assert columns_of_data(trial) == {"generator": "'clock'", "hours": "3", "step": "1.0", "seed": "0"}


def test_a_study_file_names_it(tmp_path):
    generator(clock)
    uniform = "generator: uniform, n_keys: 20, n_queries: 5, n_values: 20"
    text = YAML.format(name="clocks", file="clocks.yaml")
    (tmp_path / "clocks.yaml").write_text(text.replace(uniform, "generator: clock, hours: 3, sizes: [1, 2]"))
    first = load_study(tmp_path / "clocks.yaml").trials("quick")[0]
    assert columns_of_data(first) == {"generator": "'clock'", "hours": "3", "sizes": "'[1,2]'", "seed": "0"}


def test_commands_take_its_arguments_by_name(call, tmp_path):
    generator(clock)
    code, out, _ = call("generate", "clock", "--set", "hours=4", "--set", "words=pm", "-o", "clock.csv")
    assert (code, out) == (0, "4 facts written to clock.csv\n")
    assert read(tmp_path / "clock.csv") == Database.from_facts(clock(4, words="pm", seed=0))
    for wrong, message in {
        "hours=x": "clock: hours must be an integer, got 'x'",
        "hour=4": "clock: unknown hour, missing hours",
        "hours": "--set is NAME=VALUE, such as n=4; got 'hours'",
    }.items():
        code, _, said = call("generate", "clock", "--set", wrong, "-o", "x.csv")
        assert (code, message in said) == (2, True)
