"""Chromium for the tests of the explorer: pages opened from disk, with everything that they ask for or complain of."""

import shutil
from contextlib import contextmanager
from functools import cache

import factrank
from factrank import LayerShape, init_layer
from factrank.app.page import build_explorer, explorer_payload

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@contextmanager
def opened(browser, path, html, hash="", **options):  # noqa: A002
    """The page at an address with this hash; on exit it must have asked for nothing and complained of nothing."""
    if html is not None:
        path.write_text(html, encoding="utf-8")
    context = browser.new_context(**{"viewport": WIDE, **options})
    page = context.new_page()
    page.set_default_timeout(120_000)  # on a busy machine a page takes long to load
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"file://{path}{hash}")
    until(page, "!explorer.model.layer || explorer.model.evaluation")
    yield page
    assert not complaints
    assert [one for one in asked if not one.startswith(("file:", "data:"))] == []
    context.close()


def until(page, condition, seconds=100):
    """Wait for a condition in JavaScript; `wait_for_function` would need eval, which the page's policy forbids."""
    page.evaluate(
        f"""new Promise((done, fail) => {{
          const end = Date.now() + {1000 * seconds};
          const late = () => Date.now() > end ? fail(new Error("not in time")) : setTimeout(look, 10);
          const look = () => ({condition}) ? done() : late();
          look();
        }})"""
    )


def counts(page):
    """The numbers in the tiles, by name."""
    return dict(
        page.eval_on_selector_all(
            ".tile",
            "tiles => tiles.map((t) => [t.querySelector('.name').textContent, t.querySelector('.value').textContent])",
        )
    )


@cache
def astrid_measured():
    return factrank.measure(factrank.sample("astrid"), 0.5)


@cache
def astrid_page():
    """The page of a constructed layer with its certificate and ranks."""
    facts = factrank.sample("astrid")
    made = factrank.construct(facts)
    return build_explorer(explorer_payload(facts, made.model, astrid_measured(), made.certificate, title="astrid"))


@cache
def random_page():
    """The page of a layer with random weights, which gets some facts wrong and hallucinates at low thresholds."""
    facts = factrank.sample("astrid")
    layer = init_layer(LayerShape(4, 2, 2, 2), *facts.shape, key=0)
    return build_explorer(explorer_payload(facts, layer, title="random"))
