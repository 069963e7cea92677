"""What the viewer's pages take in large stores and with odd trajectories: part of `make bench-view`."""

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

from playwright.sync_api import Browser, CDPSession, Page, ViewportSize

from benchmarks.odd import Sizes, build_odd, oddities
from benchmarks.stores import EXPERIMENTS, PROJECT, write_wide
from benchmarks.table import Row, at_most
from tests.browser.places import READY
from tests.browser.processes import viewing

STEPS = 250
SIZE: ViewportSize = {"width": 1440, "height": 900}
_DRAWN = """
selector => new Promise((done, fail) => {
    const look = () => document.querySelector(selector)
        ? requestAnimationFrame(() => setTimeout(() => done(performance.now())))
        : performance.now() > 60_000
        ? fail(new Error(`no ${selector} on ${location.href} after a minute: ${document.body.innerText.slice(0, 500)}`))
        : requestAnimationFrame(look);
    look();
})
"""
"""When what was looked for has been drawn: after the frame that it is in, in ms since the navigation began."""
_ASKED = """
paths => {
    const begin = performance.now();
    const answers = paths.map(path => fetch(path).then(answer => answer.json()));
    return Promise.all(answers).then(() => performance.now() - begin);
}
"""
_SCROLLED = """
() => new Promise(done => {
    let longest = 0;
    new PerformanceObserver(list => {
        for (const each of list.getEntries()) longest = Math.max(longest, each.duration);
    }).observe({type: "long-animation-frame", buffered: false});
    const tall = [...document.querySelectorAll("*")].filter(each =>
        each.scrollHeight > each.clientHeight + 50 && /auto|scroll/.test(getComputedStyle(each).overflowY));
    const body = tall.sort((one, other) => other.scrollHeight - one.scrollHeight)[0] ?? document.scrollingElement;
    const last = Math.max(0, body.scrollHeight - body.clientHeight);
    let frame = 0;
    const step = () => {
        body.scrollTop = frame < 60 ? body.scrollTop + 120 : last * (frame - 60) / 40;
        if (++frame <= 100) requestAnimationFrame(step);
        else setTimeout(() => done(longest), 300);
    };
    requestAnimationFrame(step);
})
"""
"""The longest frame of more than 50 ms, or 0: line by line at first, then in leaps to the end."""


def seconds_until_drawn(page: Page, url: str, selector: str) -> float:
    """From the start of the navigation until the first of these elements is on the screen."""
    page.goto(url, wait_until="commit")
    return float(page.evaluate(_DRAWN, selector)) / 1e3


def median_of(browser: Browser, url: str, selector: str, rounds: int) -> float:
    """Of several fresh browser contexts, which have nothing in their caches."""
    seconds = []
    for _ in range(rounds):
        with browser.new_context(viewport=SIZE) as context:
            seconds.append(seconds_until_drawn(context.new_page(), url, selector))
    return median(seconds)


def first_page(browser: Browser, store: Path, rounds: int) -> float:
    """Seconds from the start of `rolltrace view` until its first page is drawn, the median of several starts."""
    seconds = []
    for _ in range(rounds):
        with browser.new_context(viewport=SIZE) as context:
            page = context.new_page()
            begin = time.perf_counter()
            with viewing(store) as address:
                seconds_until_drawn(page, address, READY["experiments"])
                seconds.append(time.perf_counter() - begin)
    return median(seconds)


def measure_wide(browser: Browser, folder: Path, count: int, rounds: int) -> Iterator[Row]:
    """Pages of a store of so many trajectories in 250 steps of five experiments."""
    store = folder / f"settled-{count}"
    if not store.exists():
        write_wide(store, count, STEPS)
    section = f"viewer: {count:,} trajectories, {EXPERIMENTS} experiments of {STEPS // EXPERIMENTS} steps"
    yield Row(section, "first page, from the start", first_page(browser, store, rounds), "s", at_most(1.5))
    with viewing(store) as address:
        home = f"{address}/e/{PROJECT}/grpo-1"
        step = f"{home}/step/30"
        pages = (
            ("experiment, its charts", home, READY["experiment"]),
            (f"step of {count // STEPS:,}, its groups", step, READY["groups"]),
            (f"step of {count // STEPS:,}, as a list", f"{step}?view=list", READY["list"]),
        )
        for name, url, selector in pages:
            yield Row(section, name, median_of(browser, url, selector, rounds), "s", at_most(1))
        asked = {"project": PROJECT, "experiment": "grpo-1", "where": "reward < 0.5 and turns > 1"}
        paths = [f"/api/{each}?{urlencode(asked)}" for each in ("trajectories", "facets")]
        with browser.new_context() as context:
            page = context.new_page()
            page.goto(f"{address}/icon.svg")
            seconds = float(page.evaluate(_ASKED, paths)) / 1e3
        yield Row(section, "filter over the experiment", seconds, "s", at_most(2))
        yield Row(section, "memory of the server", server_memory(store), "MB", at_most(600))


def server_memory(store: Path) -> float:
    """The most that the `rolltrace view` of a store has used so far, in MB."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"view" in words and str(store).encode() in words:
                status = (process / "status").read_text()
                return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1e3
        except OSError:  # it has ended
            continue
    raise RuntimeError(f"no server of {store} is running")


def measure_odd(browser: Browser, folder: Path, factor: float, rounds: int) -> Iterator[Row]:
    """Trajectories of a size that few have: how long they take to open, how they scroll, what they take in memory."""
    sizes = Sizes().by(factor)
    store = folder / f"odd-{factor:g}"
    if not (store / "complete").exists():
        build_odd(store, sizes)
    opened, frames, memory = "viewer: odd ones, opened", "viewer: odd ones, longest frame", "viewer: odd ones, memory"
    rows: list[Row] = []
    session = browser.new_browser_cdp_session()
    with viewing(store) as address:
        for odd in oddities(store, sizes):
            url, selector = f"{address}{odd.path}", READY[odd.ready]
            yield Row(opened, odd.name, median_of(browser, url, selector, rounds), "s", at_most(1.5))
            with browser.new_context(viewport=SIZE) as context:
                page = context.new_page()
                seconds_until_drawn(page, url, selector)
                page.wait_for_load_state("networkidle")
                rows.append(Row(frames, odd.name, float(page.evaluate(_SCROLLED)), "ms", at_most(50)))
                rows.append(Row(memory, odd.name, renderer_memory(session), "MB", at_most(500)))
        rows.append(Row(memory, "the server, after all of them", server_memory(store), "MB", at_most(600)))
    yield from sorted(rows, key=lambda row: row.section)


def renderer_memory(session: CDPSession) -> float:
    """What the largest page has in memory of its own, in MB."""
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    sizes = [0.0]
    for each in processes:
        if each["type"] == "renderer":
            status = Path(f"/proc/{each['id']}/status").read_text()
            sizes.append(int(next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon"))) / 1e3)
    return max(sizes)
