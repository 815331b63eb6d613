"""Modules are joined in the order of their imports, and what cannot be joined is refused."""

import shutil
import subprocess

import pytest

from factrank.app.page import modules
from factrank.app.page.modules import inside_script, joined


@pytest.fixture
def assets(monkeypatch):
    """Modules that exist only here, by name."""
    texts = {}
    monkeypatch.setattr(modules, "asset", lambda name: texts[name])
    return texts


def test_every_module_follows_its_imports_once(assets):
    assets |= {
        "one.js": 'import { b } from "./two.js";\nimport { c } from "./three.js";\n'
        "export function go() { console.log(b + c()); }\n",
        "two.js": 'import { c } from "./three.js";\nexport const b = c() + 1;\n',
        "three.js": "export async function later() {}\nexport function c() { return 1; }\n",
    }
    script = joined.__wrapped__("one", "go")
    assert script.index("module_three =") < script.index("module_two =") < script.index("module_one =")
    assert script.count("module_three =") == 1
    node = shutil.which("node")
    if node is not None:
        assert subprocess.run([node, "-e", script], capture_output=True, text=True, check=True).stdout == "3\n"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"a.js": 'import { b } from "./b.js";\n', "b.js": 'import { a } from "./a.js";\n'}, "circle: a -> b -> a"),
        ({"a.js": "export default 1;\n"}, "not in the form that can be joined: export default 1;"),
        ({"a.js": 'import * as b from "./b.js";\n'}, "not in the form that can be joined: import"),
    ],
)
def test_what_cannot_be_joined_is_refused(assets, texts, message):
    assets |= texts
    with pytest.raises(AssertionError, match=message.replace("*", r"\*")):
        joined.__wrapped__("a", "go")


def test_code_cannot_end_its_element():
    with pytest.raises(AssertionError, match="inside a script element"):
        inside_script("'</SCRIPT >'")
