"""Lab reports: each placeholder says what was found, and what names nothing is an error with its line."""

from dataclasses import replace

import pytest

from factrank.errors import InputError
from factrank.experiments.store.store import Store
from factrank.experiments.study.study_results import results_of
from factrank.report.markdown import number_text
from factrank.report.publishing.lab_report import first_text, picture_name, pictures_named, render
from made_up_paper import PAPER, fill

FIT = (
    "`mean = 0.02 + 0.1 d_vo`: error 0 (of the mean alone 0.112), error on settings left out 0 (of the mean alone "
    "0.149), R² 1; 4 settings"
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    tables = fill(Store(tmp_path_factory.mktemp("store"))).tables()
    return {study.name: results_of(study, "full", tables) for study in PAPER}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{claim widths | rises}}", "0.1 [0.1, 0.1]"),
        ("{{claim widths|ours}}", "0.42 [0.409, 0.431]"),
        ("{{claim widths | nobody}}", "no value (no trial with model.d_vo = 9)"),
        ("{{verdict widths | rises}} {{verdict widths | falls}}", "reproduced not reproduced"),
        ("{{ verdict widths | slope }}", "measured"),
        ("{{verdict readouts | ranks fall}}", "reproduced"),
        ("{{claim readouts | ranks fall}}", "4.5 [4.5, 4.5]"),
        ("{{value widths | by-width | model.d_vo=3}}", "0.32 [0.309, 0.331]"),
        ("{{value widths | by-width | quantity=mean, model.d_vo=3.0}}", "0.32 [0.309, 0.331]"),
        ("{{value widths | all | quantity=a, b=1}}", "0.1 [0.1, 0.1]"),
        ("{{value widths | all | quantity=lost}}", "no value (no trial has a value of unknown)"),
        ("{{value readouts | ranks | tau=0.5, precision=float32}}", "5.9 [5.27, 6.53]"),
        ("{{trials widths}} {{trials readouts}}", "40 10"),
        ("{{count studies}} {{count trials}} {{count claims}} {{count extensions}}", "2 50 6 1"),
        ("{{count reproduced}} {{count not reproduced}} {{count not comparable}} {{count statements}}", "2 2 1 5"),
        ("{{count reproduced | claims}} {{count measured | claims}} {{count not reproduced | extensions}}", "2 1 1"),
        ("{{chart widths | by-width}}", "![Recall](charts/widths-by-width.svg)"),
        ("{{fit widths | line}}", FIT),
        ("no placeholder, {braces}", "no placeholder, {braces}"),
    ],
)
def test_placeholders(results, text, expected):
    assert render(f"a {text}\n", results) == f"a {expected}\n"


def test_tables(results):
    claims = render("{{claims readouts}}", results).splitlines()
    assert claims == [
        "| claim | published | ours [95 %] | detectable | seeds | verdict | why |",
        "|---|---|---:|---:|---:|---|---|",
        "| The rank falls. | greater | 4.5 [4.5, 4.5] | 0 | 10 | **reproduced** | the interval is above 0 |",
    ]
    claims = render("{{claims widths}}", results)
    assert "| Recall rises. (Figure 1) | rises |" in claims
    (row,) = [line for line in claims.splitlines() if line.startswith("| Recall is -0.5. |")]
    _, _, published, ours, detectable, seeds, status, _, _ = map(str.strip, row.split("|"))
    assert (published, ours, seeds, status) == ("-0.5 ± 0.01", "0.27 [0.259, 0.281]", "10", "not reproduced")
    assert 0 < float(detectable) < 0.05  # about three standard errors
    assert "| How fast? | none published | 0.1 [0.1, 0.1] | 0 | 10 | measured |" in claims
    assert "| Recall of d_vo 4. * | 0.45 ± 0.001 |" in claims
    assert claims.endswith("\n\n\\* not published: a question of ours")
    assert render("{{summary readouts | ranks}}", results).splitlines()[1:] == [
        "|---|---:|---:|---:|",
        "| float32 | 0.5 | 5.9 [5.27, 6.53] | 10 |",
        "| float32 | 0.95 | 1.4 [0.774, 2.03] | 10 |",
    ]
    assert render("{{summary widths | all}}", results).splitlines() == [
        "| a, b=1 | lost | seeds |",
        "|---:|---:|---:|",
        "| 0.1 [0.1, 0.1] | – | 0/10 |",
        "",
        "– no value: no trial has a value of unknown",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{claim widhts | rises}}", "no study 'widhts'; did you mean 'widths'?"),
        ("{{claim widths | rise}}", "no claim 'rise'; did you mean 'rises'?"),
        ("{{summary widths | lines}}", "no summary 'lines'"),
        ("{{fit readouts | line}}", "no fit 'line'; there are none"),
        ("{{chart widths | line}}", "no chart or summary 'line'; did you mean 'lines'?"),
        ("{{claim widths}}", "claim takes 2 names separated by |; got 1"),
        ("{{claim widths | }}", "claim takes 2 names"),
        ("{{trials}}", "trials takes 1 names"),
        (
            "{{count nonsense}}",
            "count takes one of studies, trials, searches, claims, statements, extensions, reproduced",
        ),
        ("{{count trials | extensions}}", "count takes one of"),
        ("{{count reproduced | widths}}", "count takes one of"),
        ("{{number 5}}", "a placeholder must begin with one of claim, verdict"),
        ("{{}}", "a placeholder must begin with one of"),
        ("{{value widths | by-width}}", "4 rows of the summary match, expected one; also give quantity, model.d_vo"),
        ("{{value widths | by-width | model.d_vo=9}}", "0 rows of the summary match, expected one"),
        ("{{value widths | by-width | model.d_vo=x}}", "0 rows"),
        (
            "{{value widths | by-width | d_vo=1}}",
            "with each of quantity, model.d_vo once; got 'd_vo=1'",
        ),
        ("{{value widths | by-width | model.d_vo=1, model.d_vo=2}}", "once; got 'model.d_vo=2'"),
        ("{{claim widths | rises", "unmatched {{"),
        ("claim widths | rises}}", "unmatched }}"),
    ],
)
def test_what_names_nothing_is_an_error(results, text, expected):
    with pytest.raises(InputError) as error:
        render(f"{{{{count\nstudies}}}}\n\n{text}\n", results, "mine.md")
    assert str(error.value).startswith("mine.md, line 4: ")
    assert expected in str(error.value)


def test_a_first_text_shows_everything_that_is_drawn(results):
    pictures = {picture_name(PAPER[0], "lines"), picture_name(PAPER[1], "ranks")}
    text = first_text("paper", results, pictures)
    rendered = render(text, results)
    assert pictures_named(rendered) == pictures
    assert rendered.count("| verdict |") == 2
    assert rendered.startswith("# paper\n\n2 studies, 50 trials. ")
    assert "Somebody 2025, Figure 1." in rendered


@pytest.mark.parametrize("braces", ["{{", "}}", "{{claims widths}}", "{}}", "{{}", "{{{}}}", "a{b}c {{{{ }", "}{}{"])
def test_a_first_text_can_be_read_whatever_the_studies_say(results, braces):
    found = results["widths"]
    words = {"title": f"title {braces}", "question": f"question {braces}", "method": braces}
    fits = tuple(replace(fit, title=f"fit {braces}") for fit in found.study.fits)
    source = replace(found.study.source, paper=f"paper {braces}")
    study = replace(found.study, **words, fits=fits, source=source)
    rendered = render(first_text(braces, {"widths": replace(found, study=study)}, ()), results)
    for text in (*words.values(), f"# {braces}\n", f"paper {braces}, Figure 1.", f"fit {braces}: `mean"):
        assert text in rendered
    study = replace(study, question="half a letter: \ud800")
    assert first_text("paper", {"widths": replace(found, study=study)}, ()).encode()


def test_numbers_do_not_depend_on_the_last_bits():
    for number in (0.1 + 0.2, 0.0625, 1.005, 0.9995, 123456.5, 1e-9, 2 / 3):
        for nearby in (number * (1 - 2e-15), number * (1 + 2e-15)):
            assert number_text(nearby) == number_text(number)
    assert number_text(1 - 1e-15) == "1"
    assert number_text(-0.9996) == "-0.9996"
    assert number_text(-1e-16) == "0"
