"""Draw docs/pictures/explorer.png: the explorer on a layer trained on sample:elements, in the Chromium of the system.

Run it as `python tools/explorer_picture.py [FILE]`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import factrank
from factrank import LayerShape, Training

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "explorer.png"
SIZE = {"width": 1280, "height": 832}
QUESTION = "#k=Polonium&q=category&tau=0.95"  # a missing entry


def main(path: Path) -> None:
    """Train the layer, open its page at a question, and take the picture."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("there is no Chromium on this machine")
    facts = factrank.sample("elements")
    shape = LayerShape(d_model=16, n_heads=2, d_qk=8, d_vo=8)
    trained = factrank.train(facts, shape, Training(epochs=400, stop="recall_tau"))
    page = factrank.explore(trained, facts, title="Chemical elements", budget=5.0)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        saved = page.save(Path(folder, "page.html"))
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        opened = browser.new_page(viewport=SIZE, color_scheme="light")
        opened.goto(f"file://{saved}{QUESTION}")
        opened.wait_for_selector(".charts canvas")
        opened.wait_for_timeout(500)
        opened.screenshot(path=path)
        browser.close()
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
