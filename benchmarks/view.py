"""How long the viewer's pages take in a real Chromium: `make bench-view`, `python -m benchmarks.view [--json FILE]`.

    python -m benchmarks.view --trajectories 20000 --folder /tmp/viewed

A page has been drawn when what it is about is on the screen: rows of experiments, cells of groups, messages, tokens.
It is timed in the browser, from the start of its navigation on; the first page from the start of `rolltrace view` on.
Each is opened several times in a fresh browser context, and the median counts. The store has one trajectory of 30
turns and 30,000 tokens. A picture from the same server shows what browser and machine take at least. The store is
kept in --folder, if that is given, for the next time.
"""

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

import rolltrace
from benchmarks.table import Row, at_most, render, write_json
from tests.browser.places import READY
from tests.browser.processes import launched, viewing
from tests.view.stores import BIG, write_big

ROUNDS = 5
STATIC = Path(rolltrace.__file__).parent / "view" / "static"
_DRAWN = """
selector => new Promise(done => {
    const look = () => document.querySelector(selector)
        ? requestAnimationFrame(() => setTimeout(() => done(performance.now())))
        : requestAnimationFrame(look);
    look();
})
"""
"""When what was looked for has been drawn: after the frame that it is in, in ms since the navigation began."""


def seconds_until_drawn(page: Page, url: str, selector: str) -> float:
    """From the start of the navigation until the first of these elements is on the screen."""
    page.goto(url, wait_until="commit")
    return float(page.evaluate(_DRAWN, selector)) / 1e3


def median_of(browser: Browser, url: str, selector: str) -> float:
    """Of several fresh browser contexts, which have nothing in their caches."""
    taken = []
    for _ in range(ROUNDS):
        with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
            taken.append(seconds_until_drawn(context.new_page(), url, selector))
    return median(taken)


def first_pages(browser: Browser, store: Path) -> list[float]:
    """Seconds from the start of `rolltrace view` until its first page is drawn, of several starts."""
    taken = []
    for _ in range(ROUNDS):
        with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
            page = context.new_page()
            begin = time.perf_counter()
            with viewing(store) as address:
                seconds_until_drawn(page, address, READY["experiments"])
                taken.append(time.perf_counter() - begin)
    return taken


def pages(browser: Browser, store: Path, count: int) -> Iterator[Row]:
    """What pages of this store take."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    section = f"viewer: {count:,} trajectories; processes that want to run, per processor: {busy:.1f}"
    yield Row(section, "first page, from the start of the server", median(first_pages(browser, store)), "s", at_most(1))
    long_id = rolltrace.open(store).trajectories(step=0, sample_index="long", limit=1)[0]["trajectory_id"]
    with viewing(store) as address:
        size = httpx.get(f"{address}/api/trajectory/{long_id}", timeout=60).json()["token_total"]
        home = f"{address}/e/{'/'.join(BIG)}"
        middle = f"{home}/step/{count // 400 // 2}"
        trajectory = f"{address}/t/{long_id}"
        shown = (
            ("for comparison: a picture of one letter", f"{address}/icon.svg", "svg", None),
            ("experiments", address, READY["experiments"], None),
            ("experiment, its charts", home, READY["experiment"], None),
            ("step of 400, its groups", middle, READY["groups"], at_most(0.5)),
            ("step of 400, as a list", f"{middle}?view=list", READY["list"], at_most(0.5)),
            ("trajectory of 30 turns, conversation", trajectory, READY["conversation"], at_most(0.5)),
            (f"the same, {size:,} tokens", f"{trajectory}?tab=tokens", READY["tokens"], at_most(0.5)),
            ("the same, ops", f"{trajectory}?tab=ops", READY["ops"], None),
        )
        for name, url, selector, target in shown:
            yield Row(section, name, median_of(browser, url, selector), "s", target)


def sizes() -> Iterator[Row]:
    """How much a browser has to load, compressed."""
    section = "viewer: bundle, gzipped"
    by_kind = {kind: sorted(STATIC.rglob(f"*.{kind}")) for kind in ("js", "css")}
    first = (STATIC / "index.html").read_text()
    for kind, files in by_kind.items():
        at_once = [file for file in files if file.name in first]
        yield Row(section, f"{kind}, first page", _kilobytes(at_once), "kB")
        yield Row(section, f"{kind}, everything", _kilobytes(files), "kB")


def _kilobytes(files: list[Path]) -> float:
    return sum(len(gzip.compress(file.read_bytes())) for file in files) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, default=2_000, help="how many, by 400 (default: 2000)")
    parser.add_argument("--folder", type=Path, help="the store, if it exists; otherwise it is written there")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        store = options.folder or Path(temporary) / "store"
        if not store.exists():
            write_big(store, options.trajectories)
        subprocess.run([sys.executable, "-m", "rolltrace", "drain", str(store)], check=True)  # as a drainer leaves it
        browser = launched(playwright)
        rows = [*pages(browser, store, options.trajectories), *sizes()]
        browser.close()
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if options.json:
        write_json(rows, options.json)


if __name__ == "__main__":
    main()
