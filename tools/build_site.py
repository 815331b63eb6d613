"""Gather the pages of the documentation in one folder and build the site from them, without the network.

python tools/build_site.py [--pages FOLDER] [--site FOLDER] [--pages-only] [--run-notebooks]

The pages are docs/, the published reproductions, the notebooks of examples/notebooks, and pages written here: the
commands (from typer), the public names (from docstrings, by mkdocstrings) and llms.txt. Links may lead to any file of
the repository: other pages are linked as pages, everything else is copied alongside them.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]

import notebook_pages  # noqa: E402 - from this folder
import reference_pages  # noqa: E402

CONFIGURATION = ROOT / "mkdocs.yml"
PUBLISHED = "wong2025", "nichani2025", "mahdavi2024", "language"
ELSEWHERE = {
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
    "THIRD_PARTY.md": "project/third-party.md",
    "reproductions/atlas/README.md": "findings/atlas.md",
    "reproductions/audit/README.md": "findings/audit.md",
    **{f"reproductions/{paper}/README.md": f"findings/{paper}.md" for paper in PUBLISHED},
    **{f"reproductions/{paper}/claims.md": f"findings/{paper}-claims.md" for paper in PUBLISHED},
}
"""Pages outside docs/, and where they are on the site."""
FOUND_LAST = "---\nsearch:\n  boost: 0.3\n---\n\n"
"""Of pages that repeat every word of a paper: the search shows others before them."""
PICTURES = {".svg", ".png"}
LIST = "llms.txt"
FENCE = re.compile(r"^(```.*?^```[ \t]*$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")


def gather(pages: Path, *, run_notebooks: bool = False) -> None:
    """Write all pages of the site, and what they show, into a folder, which is emptied first.

    Arguments:
        pages: A new or empty folder, or one that this function has written.
        run_notebooks: Whether to execute the notebooks and show their outputs.
    """
    if pages.exists() and any(pages.iterdir()) and not (pages / LIST).exists():
        sys.exit(f"{pages} has other files: name an empty folder")
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    (pages / LIST).touch()  # marks the folder as ours, also if gathering fails
    homes = {path: PurePosixPath(home) for path, home in _homes()}
    broken: list[str] = []
    for path, home in homes.items():
        target = pages / home
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (ROOT / path).is_file():
            broken.append(f"{home} is made from {path}, which is not a file")
            continue
        if home.suffix != ".md":
            shutil.copyfile(ROOT / path, target)
            continue
        if path.endswith(".ipynb"):
            text = notebook_pages.page(ROOT / path, target.parent, run=run_notebooks)
        else:
            text = (ROOT / path).read_text(encoding="utf-8")
        found_last = FOUND_LAST if home.name.endswith("-claims.md") else ""
        linked, missing = relinked(text, path, homes, pages)
        broken += [f"{path} links to {found}, which is not a file" for found in missing]
        target.write_text(found_last + linked, encoding="utf-8")
    if broken:
        sys.exit("\n".join(broken))
    for name, text in reference_pages.pages().items():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        (pages / name).write_text(text, encoding="utf-8")
    index = pages / "api.md"
    names = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
    index.write_text(names.sub(r"| [`\1`][factrank.\1] |", index.read_text(encoding="utf-8")), encoding="utf-8")
    (pages / LIST).write_text(llms_text(pages), encoding="utf-8")


def _homes() -> Iterator[tuple[str, str]]:
    """Every file that is on the site because of where it is, and its place there."""
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.is_file():
            yield path.relative_to(ROOT).as_posix(), path.relative_to(ROOT / "docs").as_posix()
    yield from ELSEWHERE.items()
    for path in sorted((ROOT / "examples" / "notebooks").glob("*.ipynb")):
        yield path.relative_to(ROOT).as_posix(), f"tutorials/{path.stem}.md"


def relinked(text: str, path: str, homes: dict[str, PurePosixPath], pages: Path) -> tuple[str, list[str]]:
    """Return a page with its links as they are on the site, and the files that are missing; copies what it links to.

    Arguments:
        text: The page, with links as they are in the repository.
        path: Its file in the repository.
        homes: Place of every page and picture on the site, by its file in the repository.
        pages: Where the site is gathered.
    """
    missing = []

    def link(match: re.Match[str]) -> str:
        target, mark, anchor = match[1].partition("#")
        if "://" in target or not target or target.startswith("mailto:"):
            return match[1]
        found = PurePosixPath(os.path.normpath(PurePosixPath(path).parent / target)).as_posix()
        home = PurePosixPath("index.md") if found == "README.md" else homes.get(found)
        if home is None and not (ROOT / found).is_file():
            missing.append(found)
            return match[1]
        return os.path.relpath(home or _copied(found, pages), homes[path].parent) + mark + anchor

    parts = FENCE.split(text)
    return "".join(part if place % 2 else LINK.sub(link, part) for place, part in enumerate(parts)), missing


def _copied(found: str, pages: Path) -> PurePosixPath:
    """Copy a file of the repository that is no page; browsers show source files if their names end in .txt."""
    home = PurePosixPath("files", found if PurePosixPath(found).suffix in PICTURES else f"{found}.txt")
    (pages / home).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / found, pages / home)
    return home


def llms_text(pages: Path) -> str:
    """Return llms.txt: every page of the navigation, with its first paragraph."""
    settings = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))
    parts = [f"# {settings['site_name']}\n\n> {settings['site_description']}\n"]
    for section in settings["nav"]:
        for title, entries in section.items():
            parts.append(f"## {title}\n")
            for entry in entries:
                path = entry if isinstance(entry, str) else next(iter(entry.values()))
                if not (pages / path).is_file():
                    sys.exit(f"{CONFIGURATION.name} lists {path}, and there is no such page")
                heading, summary = _opening((pages / path).read_text(encoding="utf-8"))
                parts.append(f"- [{heading}]({path.removesuffix('.md')}.html): {summary}")
            parts.append("")
    return "\n".join(parts)


def _opening(text: str) -> tuple[str, str]:
    """Return the heading of a page and its first sentence of prose, without links."""
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    assert heading is not None, "a page begins with its heading"
    prose = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", FENCE.sub("", text[heading.end() :]))
    blocks = [" ".join(block.split()) for block in prose.split("\n\n")]
    first = next((block for block in blocks if block and block[0] not in "#|!-<:"), "")
    sentences = re.split(r"(?<=[.?!:]) (?=[A-Z\"'`(])", first.replace("**", ""))
    return heading[1], " ".join(sentences[:2]).rstrip(":")


def build(pages: Path, site: Path) -> None:
    """Build the site; a warning, such as about a broken link, ends the program with exit code 1."""
    from mkdocs.commands.build import build as build_site  # noqa: PLC0415 - gathering needs no mkdocs
    from mkdocs.config import load_config  # noqa: PLC0415
    from mkdocs.exceptions import Abort  # noqa: PLC0415

    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING)
    config = load_config(str(CONFIGURATION), docs_dir=str(pages), site_dir=str(site), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    try:
        build_site(config)
    except Abort as error:
        sys.exit(str(error))
    finally:
        config.plugins.on_shutdown()
    print(json.dumps({"site": str(site), "pages": sum(1 for _ in pages.rglob("*.md"))}))


def main() -> None:
    """Read the arguments, gather and build."""
    parser = argparse.ArgumentParser(description="Build the documentation.")
    parser.add_argument("--pages", type=Path, default=ROOT / "site-pages", help="where to gather the pages")
    parser.add_argument("--site", type=Path, default=ROOT / "site", help="where to build the site")
    parser.add_argument("--pages-only", action="store_true", help="only gather the pages, for another builder")
    parser.add_argument("--run-notebooks", action="store_true", help="show the outputs of the notebooks, too")
    given = parser.parse_args()
    gather(given.pages.resolve(), run_notebooks=given.run_notebooks)
    if not given.pages_only:
        build(given.pages.resolve(), given.site.resolve())


if __name__ == "__main__":
    main()
