"""The page in a real browser: whole, quiet, readable on a phone, on paper and in the dark."""

import os
import shutil

import jax
import pytest
from playwright import sync_api

import sundman
import sundman.report
from tests.report.example import HOSTILE, LONG, example

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium():
    names = ("chromium", "chromium-browser", "google-chrome")
    paths = [os.environ.get("SUNDMAN_CHROMIUM"), *(shutil.which(name) for name in names)]
    return next((path for path in paths if path), None)


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


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return sundman.report.write(example(), tmp_path_factory.mktemp("page") / "page.html").as_uri()


@pytest.fixture
def opened(browser, address):
    """A function that opens the page; what the page complained about or asked for is in lists."""
    contexts = []

    def open_page(width=1200, at=address, **settings):
        context = browser.new_context(viewport={"width": width, "height": 800}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.complaints, page.requests = [], []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        page.on("dialog", lambda dialog: (page.complaints.append("dialog"), dialog.dismiss()))
        page.goto(at, wait_until="load")
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def page_of_a_run(tmp_path_factory):
    """The page of a run that is too short, and its verdict."""
    sampler = sundman.sa_sgld(5e-3, alpha=50.0, m=0.1, M=10.0, r=0.5)
    draws = sundman.sample(
        sundman.targets.star(), sampler, key=jax.random.key(0), chains=3, steps=200, progress=False
    )
    report = sundman.report.of_run(draws, target=sundman.targets.star())
    page = sundman.report.write(report, tmp_path_factory.mktemp("run") / "run.html")
    return page.as_uri(), str(draws.verdict)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sundman.TrustWarning")
@pytest.mark.parametrize("width", [400, 1200])
def test_the_verdict_is_on_the_first_screen(opened, page_of_a_run, width):
    address, verdict = page_of_a_run
    page = opened(width, at=address)
    box = page.get_by_text(verdict[:40]).first.bounding_box()
    assert box["y"] + box["height"] < 800
    assert page.complaints == []
    figures = page.evaluate("[...document.images].map(i => i.getBoundingClientRect().width)")
    assert min(figures) > (300 if width == 400 else 440)  # two beside each other


@pytest.mark.long
def test_page_is_quiet_and_asks_for_nothing(opened, address):
    page = opened()
    assert page.complaints == []
    asked = [url for url in page.requests if not url.startswith("data:")]
    assert asked == [address]
    assert page.evaluate("document.scripts.length") == 0
    assert page.evaluate("document.documentElement.lang") == "en"


def test_every_image_is_there_and_told_in_words(opened):
    pictures = opened().evaluate(
        "[...document.images].map(i => [i.naturalWidth, i.naturalHeight, i.alt, "
        "i.closest('figure').querySelector('figcaption').textContent])"
    )
    assert len(pictures) == 3
    for width, height, alt, caption in pictures:
        assert width > 0
        assert height > 0
        assert alt.strip()
        assert caption.strip()


def test_tables_have_heads_and_numbers_to_the_right(opened):
    page = opened()
    tables = page.evaluate(
        "[...document.querySelectorAll('table')].map(t => [t.tHead.rows.length, "
        "t.querySelectorAll('th[scope=col]').length, t.querySelectorAll('th[scope=row]').length, "
        "t.tBodies[0].rows.length])"
    )
    assert len(tables) == 5  # verdicts, two tables, settings, how it was made
    for heads, columns, named_rows, rows in tables:
        assert heads == 1
        assert columns >= 2
        assert named_rows == rows > 0
    styles = page.evaluate(
        "(s => [s.textAlign, s.fontVariantNumeric])(getComputedStyle("
        "document.querySelector('.scroll td.number')))"
    )
    assert styles[0] == "right"
    assert "tabular-nums" in styles[1]


def test_hostile_text_is_shown_as_text(opened):
    page = opened()
    assert HOSTILE in page.title()
    assert HOSTILE in page.locator("h1").inner_text()
    page.locator("summary").click()
    settings = page.locator("details table").inner_text()
    for text in (HOSTILE, "infinity", "not a number", "not set", "1000 in all", LONG):
        assert text in settings


@pytest.mark.long
@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_never_scrolls_sideways(opened, width, scheme):
    page = opened(width, color_scheme=scheme)
    page.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    beyond = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll') && "
        "e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert beyond == []
    box = page.locator(".scroll").first
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")


def test_verdicts_are_cards_on_a_phone_and_rows_on_a_desk(opened):
    row = ".verdicts tbody tr"
    assert opened(1200).locator(row).first.evaluate("r => getComputedStyle(r).display") != "block"
    page = opened(360)
    assert page.locator(row).first.evaluate("r => getComputedStyle(r).display") == "block"
    label = page.locator(".verdicts td").first.evaluate(
        "d => getComputedStyle(d, '::before').content"
    )
    assert label == '"Paper says"'
    outcomes = page.locator(".verdicts .mark").all_inner_texts()
    assert outcomes == ["◐ partly", "✗ does not reproduce", "✓ reproduces", "○ not tested"]


def test_dark_mode_is_dark_and_readable_with_figures_on_white(opened):
    page = opened(color_scheme="dark")
    for name in ("body", ".note", "a", ".mark.good", ".mark.look", ".mark.bad", ".mark.open"):
        assert contrast(page, name) >= 4.5, name
    card = page.locator("figure img").first.evaluate("i => getComputedStyle(i).backgroundColor")
    assert card == "rgb(255, 255, 255)"
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(channels(dark)) < 3 * 64
    assert len(page.screenshot()) > 5000


def test_light_mode_is_readable(opened):
    page = opened(color_scheme="light")
    for name in ("body", ".note", "a", ".mark.good", ".mark.look", ".mark.bad", ".mark.open"):
        assert contrast(page, name) >= 4.5, name


def test_page_prints_with_its_settings_open_and_nothing_cut_off(opened):
    page = opened(680)  # about the width between the margins of A4
    pdf = page.pdf(format="A4", prefer_css_page_size=True)
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 10_000
    page.emulate_media(media="print")
    assert page.locator("details table").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    for box in page.locator(".scroll").all():
        assert box.evaluate("box => getComputedStyle(box).overflowX") == "visible"


def channels(color):
    return [float(part) for part in color[color.index("(") + 1 : -1].split(",")[:3]]


def luminance(color):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(page, selector):
    """The contrast of text with what is behind it, by the WCAG's formula."""
    ink, behind = page.locator(selector).first.evaluate(
        "e => { let b = e; while (getComputedStyle(b).backgroundColor === 'rgba(0, 0, 0, 0)') "
        "b = b.parentElement; return [getComputedStyle(e).color, "
        "getComputedStyle(b).backgroundColor] }"
    )
    pair = sorted(luminance([c / 255 for c in channels(color)]) for color in (ink, behind))
    return (pair[1] + 0.05) / (pair[0] + 0.05)
