"""Foreign text: no name, path or message from a file reaches the terminal raw or in full length."""

import ast
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from factrank.cli.support.terminal import Terminal, complain, say
from factrank.databases.database import Database
from factrank.databases.files.formats import read
from factrank.errors import ConflictError, InputError, InputWarning
from factrank.foreign_text import quoted, shown_message, shown_name, visible

HOSTILE = "\x1b[31m\x1b]0;title\x07\x9b2J\u202ereversed\r\b\u2028\x7f"
RAW = set("\x1b\x07\x9b\u202e\r\b\u2028\x7f")
texts = st.text(st.characters() | st.sampled_from(sorted(RAW)))
COMMANDS = Path(__file__).parents[1] / "src" / "factrank" / "cli"


@given(texts)
def test_nothing_hidden_stays_and_ordinary_text_does(text):
    shown = visible(text)
    assert not any((letter < " " and letter != "\n") or "\x7f" <= letter <= "\x9f" for letter in shown)
    assert not RAW & set(shown)
    assert visible(shown) == shown
    if text.isprintable():
        assert shown == text


@given(texts, st.integers(0, 3))
def test_names_stay_on_one_line_and_messages_are_bounded(text, power):
    assert "\n" not in shown_name(text * 10**power)
    assert len(text) > 40 or shown_name(text).count("...") == text.count("...")
    message = shown_message(f"no column {text * 10**power}: expected one")
    assert message.startswith("no column ")
    assert message.endswith(": expected one") or text.count("\n")
    assert len(message) <= 101 * 10 * 2_000


def test_long_names_are_cut_wherever_they_enter_a_message():
    endless = "a" * 100_000
    assert len(str(InputError(f"x.csv: no column {endless!r}; the columns are 'b'"))) < 500
    assert str(InputError(f"x.csv: no column {endless!r}; the columns are 'b'")).endswith("the columns are 'b'")
    assert len(str(InputWarning("a b " * 100_000))) < 2_100
    assert str(InputError("line\n" * 5_000)).count("\n") == 100
    assert (len(quoted(endless)), quoted(endless)[-4:]) == (80, "...'")
    with pytest.raises(ConflictError) as caught:
        Database.from_facts([(endless, HOSTILE, "1"), (endless, HOSTILE, "2\nforged line")])
    assert len(str(caught.value)) < 1_000
    assert not RAW & set(str(caught.value))
    assert "\nforged" not in str(caught.value)
    assert len(repr(Database.from_facts([(endless, "q", "1")]))) < 200


def test_tables_and_lines_show_escapes_and_no_markup(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    terminal = Terminal()
    terminal.file = out = io.StringIO()
    table = Table(HOSTILE)
    table.add_row(Text(HOSTILE, style="bold"))
    table.add_row("[red]marked[/red]")
    terminal.print(table, f"[bold]{HOSTILE}[/bold]")
    assert not RAW & set(out.getvalue())
    assert "\\x1b[31m" in out.getvalue()
    assert "[red]marked[/red]" in out.getvalue()
    say(HOSTILE)
    complain(HOSTILE)
    assert not RAW & set("".join(capsys.readouterr()))


@pytest.mark.parametrize("path", sorted(COMMANDS.glob("*.py")), ids=lambda path: path.name)
def test_commands_print_through_the_terminal_module_only(path):
    if path.name == "terminal.py":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        assert name not in {"print", "typer.echo", "typer.secho", "Console", "rich.print"}, node.lineno


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("conflict.csv", f"key,query,value\n{HOSTILE.replace(chr(13), '')},q,1\n{HOSTILE.replace(chr(13), '')},q,2\n"),
        ("header.csv", f"{HOSTILE.replace(chr(13), '')},b,c,d\n1,2,3,4\n"),
        ("broken.nt", f"<a> <b> {HOSTILE} .\n"),
        ("broken.jsonl", f"{HOSTILE}\n"),
        ("escaped.jsonl", json.dumps({HOSTILE: 1, "b": 2}) + "\n"),
        (f"{HOSTILE}.csv", "key,query,value\na,b\n"),
    ],
)
def test_errors_about_files_show_escapes(call, tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    code, out, err = call("measure", name)
    assert (code, out) == (2, "")
    assert not RAW & set(err)


def test_measurements_show_escapes_and_files_stay_exact(call, tmp_path):
    write = (tmp_path / "odd.jsonl").write_text
    write("".join(json.dumps({"key": HOSTILE, "query": "[red]q" * 10_000, "value": value}) + "\n" for value in "ab"))
    code, out, err = call("measure", "odd.jsonl", "--multi", "--explain", "--budget", "0")
    assert (code, err) == (0, "")
    assert not RAW & set(out)
    assert "[red]q[red]q" in out
    assert len(out) < 10_000
    said = f"2 facts written to {visible(HOSTILE)}.csv\n"
    assert call("convert", "odd.jsonl", f"{HOSTILE}.csv", "--multi")[:2] == (0, said)
    assert {key for key, _, _ in read(tmp_path / f"{HOSTILE}.csv", multi=True)} == {HOSTILE}
