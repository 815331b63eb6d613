"""First paint of explorer pages from disk, in Chromium: 200 facts (aim: 1 s) and 20,000 facts.

    python benchmarks/explore.py [REPEATS]

Paint is the browser's own first contentful paint, and `evaluated` the time at which recall, margins and hallucinations
of the whole table are known; both are medians, from the start of navigation, of a browser that is already running.
"""

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import factrank
from factrank import LayerShape, init_layer
from factrank.app.page import build_explorer, explorer_payload

TABLES = {
    "200 facts": {"n_keys": 50, "n_queries": 4, "n_values": 20},
    "20,000 facts": {"n_keys": 5000, "n_queries": 4, "n_values": 200},
}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EVALUATED = "globalThis.explorer?.model.evaluation && performance.now()"
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
WHEN = """new Promise((done) => {
  const look = () => { const at = CONDITION; at ? done(at) : setTimeout(look, 4); };
  look();
})"""
SHAPE = LayerShape(d_model=16, n_heads=4, d_qk=4, d_vo=4)


def main(repeats: int) -> None:
    if CHROMIUM is None:
        sys.exit("there is no Chromium on this machine")
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        print("table         page MB  first paint  evaluated")
        for name, sizes in TABLES.items():
            facts = factrank.generate("uniform", **sizes, seed=0)
            layer = init_layer(SHAPE, *facts.shape, key=0)
            path = Path(folder, "page.html")
            path.write_text(build_explorer(explorer_payload(facts, layer, title=name)), encoding="utf-8")
            found = [_opened(browser, path) for _ in range(repeats)]
            paint, evaluated = (statistics.median(times) / 1000 for times in zip(*found, strict=True))
            print(f"{name:13} {path.stat().st_size / 1e6:7.1f}  {paint:9.2f} s  {evaluated:7.2f} s")
        browser.close()


def _opened(browser: Browser, path: Path) -> tuple[float, float]:
    page = browser.new_page()
    page.goto(f"file://{path}")
    evaluated, paint = (page.evaluate(WHEN.replace("CONDITION", condition)) for condition in (EVALUATED, PAINT))
    page.close()
    return paint, evaluated


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
