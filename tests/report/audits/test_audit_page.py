"""The views of an audit: terminal, notebook, pictures and page."""

import json
import re

import pytest
from rich.console import Console

from factrank.auditing import audit
from factrank.errors import InputError
from factrank.report.audits import build_audit_page, describe_audit, write_audit_page
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
    assert len(records(found.plot("singular values", layer=0))) == 12
    with pytest.raises(InputError, match="unknown circuit 'XY'"):
        found.plot("effective ranks", circuit="XY")
    with pytest.raises(InputError, match="layer 9 was not audited"):
        found.plot("singular values", layer=9)


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
