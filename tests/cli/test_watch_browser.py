"""The page of ``sundman watch --serve`` in a real browser: it follows the run, and is quiet."""

import numpy as np
import pytest
from playwright import sync_api
from playwright.sync_api import expect

from sundman.watch import BlockReport, JsonLines, Summary
from sundman.watch.events import stretches
from tests.cli.test_cli_watch import serving
from tests.report.test_browser import ARGUMENTS, chromium, contrast

pytestmark = [
    pytest.mark.skipif(
        chromium() is None,
        reason="no Chromium: apt-get install chromium, or set SUNDMAN_CHROMIUM to its path",
    ),
]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as api:
        browser = api.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield browser
        browser.close()


class Running:
    """A run that goes on block by block, as the test wants it."""

    def __init__(self, path):
        self.log, self.number = JsonLines(path), 0
        self.log.start({"sampler": "<b>SGLD</b>", "temperature": 1.0})

    def go_on(self):
        self.number += 1
        rng = np.random.default_rng(self.number)
        stats = {"potential": rng.gamma(2.0, size=(4, 50)), "virial": rng.gamma(1.0, size=(4, 50))}
        seen = {"dt": Summary(1e-4, 1e-4, 1e-4), "zeta": Summary(0.5, 0.1, 2.0)}
        parts = stretches(stats, np.ones((4, 50)))
        done = 100 * self.number
        self.log.block(
            BlockReport("sampling", self.number, done, 1000, done, 1000, 4, 0,
                        float(self.number), seen, parts)
        )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1200, "light")])
def test_the_page_follows_the_run(browser, tmp_path, width, scheme):
    run = Running(tmp_path / "log.jsonl")
    run.go_on()
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page, complaints, requests = context.new_page(), [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    with serving(tmp_path / "log.jsonl") as address:
        page.goto(f"{address}/")
        expect(page).to_have_title("10% log.jsonl", timeout=10_000)
        assert page.locator(".curve").count() == 5  # four chains and the temperature
        assert page.locator("h2").inner_text() == "log.jsonl, <b>SGLD</b>: running"
        run.go_on()
        run.go_on()
        expect(page).to_have_title("30% log.jsonl", timeout=10_000)
        assert "300 of 1000" in page.locator("dl").inner_text()
        assert page.locator("[role=progressbar]").get_attribute("aria-valuenow") == "30"
        run.log.close(True)
        expect(page.locator("h2")).to_contain_text("finished", timeout=10_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for name in ("h2", ".verdict", "dt", "dd", "td", "footer"):
            assert contrast(page, name) >= 4.5, name
        assert len(page.screenshot()) > 5000
        assert {url.rsplit("/", 1)[0] for url in requests if not url.startswith("data:")} == {
            address
        }
    assert complaints == []
    context.close()
