r"""Join ES modules into one classic script, whose hash a content security policy can name.

A static page cannot import modules without allowing `data:` or `blob:` scripts. The modules in `assets` therefore
follow a convention which makes joining them a matter of two replacements:

- imports are `import { a, b } from "./other.js";`, at the start of a line;
- exports are `export function`, `export async function`, `export const` or `export class`, at the start of a line;
- modules do not import each other in a circle.

Each module becomes a function that returns its exports, in an order in which every module follows its imports. Browsers
and Node can import the same files unchanged.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|const|class) (\w+))", re.MULTILINE)
LEFT_OVER = re.compile(r"^(import|export)\b.*", re.MULTILINE)


def asset(name: str) -> str:
    """Return the text of an asset, with line breaks as browsers read them."""
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8").replace("\r\n", "\n")


@cache
def joined(entry: str, call: str) -> str:
    """Return one script with a module and everything that it imports, which ends by calling one of its exports.

    Arguments:
        entry: Name of the module, without `.js`.
        call: Name of the exported function to call, without arguments.
    """
    ordered: dict[str, str] = {}
    _add(entry, ordered, ())
    text = "\n".join(ordered.values())
    return inside_script(f'"use strict";\n(() => {{\n{text}\nmodule_{_word(entry)}.{call}();\n}})();\n')


def _add(name: str, ordered: dict[str, str], importers: tuple[str, ...]) -> None:
    if name in importers:
        raise AssertionError(f"modules import each other in a circle: {' -> '.join([*importers, name])}")
    if name in ordered:
        return
    code = asset(f"{name}.js")
    for _, other in IMPORT.findall(code):
        _add(other, ordered, (*importers, name))
    ordered[name] = _as_function(name, code)


def _as_function(name: str, code: str) -> str:
    r"""Turn a module into a function that returns its exports.

    >>> print(_as_function("one", 'import { b } from "./two.js";\nexport const a = b + 1;\n'))
    const module_one = (() => {
    const { b } = module_two;
    const a = b + 1;
    return { a };
    })();
    """
    exported = EXPORT.findall(code)
    code = IMPORT.sub(lambda found: f"const {{{found[1]}}} = module_{_word(found[2])};", code)
    code = EXPORT.sub("", code)
    left = LEFT_OVER.search(code)
    if left:
        raise AssertionError(f"{name}.js: not in the form that can be joined: {left[0]}")
    return f"const module_{_word(name)} = (() => {{\n{code}return {{ {', '.join(exported)} }};\n}})();"


def _word(name: str) -> str:
    return name.replace("-", "_")


def inside_script(code: str) -> str:
    """Normalise code to what a browser reads from a script element, so that its hash matches the policy."""
    code = code.replace("\r\n", "\n")
    if "</script" in code.lower() or "<!--" in code or "\r" in code or "\0" in code:
        raise AssertionError("the code cannot be placed inside a script element")
    return code
