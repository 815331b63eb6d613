"""The views of an audit: terminal, notebook, pictures and page."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from factrank.auditing import audit, facts_in_weights
from factrank.databases import Database
from factrank.errors import InputError
from factrank.report.audits import build_audit_page, describe_audit, describe_facts, write_audit_page
from planted_models import HEADS, KV_HEADS, LAYERS, llama_tensors, write_model


def records(chart):
    plain = chart.to_dict()
    return plain["data"].get("values") or plain["datasets"][plain["data"]["name"]]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return audit(write_model(tmp_path_factory.mktemp("audits") / "a<b>", llama_tensors()))


def test_the_terminal_has_a_row_per_layer(found):
    console = Console(width=100, record=True, file=None)
    with console.capture() as shown:
        console.print(describe_audit(found))
    text = shown.get()
    assert re.search(r"^ +1 +6 ", text, re.M)
    assert f"QK has the smaller effective rank in {found.qk_below_ov:.0%} of {LAYERS * HEADS} heads" in text
    assert "at distance 0; OV = W_V W_O; norms not folded" in text


def test_notebooks_show_it_and_draw_it(found):
    assert "a&lt;b&gt;" in found._repr_html_()
    cells = records(found.plot("effective ranks", circuit="OV"))
    assert len(cells) == LAYERS * HEADS
    head = found.layers[1].heads[2]
    cell = next(each for each in cells if (each["row"], each["column"]) == ("1", "2"))
    assert cell["colour"] == pytest.approx(head.ov.effective_rank, abs=1e-3)
    lines = records(found.plot("distances"))
    assert {line["x"] for line in lines} == {0, 1, 4, 16}
    assert {line["colour"] for line in lines} == {"layer 0", "layer 1"}
    assert len(records(found.plot("singular values", layer=0))) == 12
    with pytest.raises(InputError, match="unknown circuit 'XY'"):
        found.plot("effective ranks", circuit="XY")
    with pytest.raises(InputError, match="layer 9 was not audited"):
        found.plot("singular values", layer=9)


def test_many_layers_are_in_their_order(found):
    """Layer 2 before layer 10, in colours that follow it; the legend names the first and the last."""
    layers = tuple(replace(found.layers[n % 2], layer=n) for n in range(14))
    colour = replace(found, layers=layers).plot("distances").to_dict()["encoding"]["color"]
    assert colour["sort"] == [f"layer {n}" for n in range(14)]
    assert (colour["type"], colour["legend"]["values"]) == ("ordinal", ["layer 0", "layer 13"])


def test_the_page_is_whole_and_escapes_names(found, tmp_path):
    page = build_audit_page(found)
    assert page.count("<tr>") > LAYERS * (HEADS + KV_HEADS)
    data = json.loads(re.search(r"id=audit-data>(.*?)</script>", page, re.S).group(1))
    assert set(data["charts"]) == {"qk", "ov", "values", "distances"}
    assert "a&lt;b&gt;" in page
    assert "a<b>" not in page
    assert not re.search(r'(src|href)="?https?:', page)
    write_audit_page(found, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page


HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a&b",
    '"quoted"',
    "\x1b[31mred",
    "\u202eback",
)


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """A model whose tokens are hostile, and a table of them."""
    names = [*HOSTILE, *(f"word{i}" for i in range(24))]
    folder = write_model(tmp_path_factory.mktemp("hostile") / "m", llama_tensors() | {"model.norm.weight": np.ones(24)})
    vocabulary = {name: i for i, name in enumerate(names)}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}}), encoding="utf-8")
    table = Database.from_facts([(HOSTILE[0], HOSTILE[1], HOSTILE[2]), (HOSTILE[4], HOSTILE[3], HOSTILE[5])])
    return facts_in_weights(folder, tokens=names, table=table)


def test_the_page_has_the_facts_with_their_names_escaped(found, facts):
    whole = build_audit_page(found, facts=facts)
    assert not re.search(r'(src|href)="?https?:', whole)
    assert whole.count("<script>") + whole.count("<script type") == 3
    page = whole[: whole.index("<script")]
    titles = ("The table, fact by fact", "Recall by head", "Strongest entries of each head", "Every head")
    for title in (*titles, "Strongest entries of the direct path"):
        assert f"<h2>{title}</h2>" in page
    assert page.count("sortable") >= 5
    for raw in (HOSTILE[0], HOSTILE[1], "<img", "\x1b", "\u202e"):
        assert raw not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    rows = re.findall(r"<tr>(.*?)</tr>", page.split("The table, fact by fact")[-1].split("</table>")[0], re.S)
    assert len(rows) == 1 + 2
    entries = re.findall(r"<tr>(.*?)</tr>", page.split("Strongest entries of each head")[-1].split("</table>")[0], re.S)
    assert len(entries) == 1 + 5 * LAYERS * HEADS


def test_notebooks_and_terminals_show_facts(facts):
    html = facts._repr_html_()
    assert "<img" not in html
    assert "&lt;img" in html
    console = Console(width=100, record=True, file=None)
    with console.capture() as shown:
        console.print(describe_facts(facts))
    text = shown.get()
    assert "\x1b[31mred" not in text
    assert re.search(r"of 2 facts are recalled by some head alone", " ".join(text.split()))
    assert f"direct path: copied {facts.direct.copied:.1%}; strongest entries" in text
