"""How long the viewer's pages take in a real Chromium: `make bench-view`, `python -m benchmarks.view [--json FILE]`.

    python -m benchmarks.view --quick
    python -m benchmarks.view --trajectories 20000 --wide 100000 1000000 --odd 0.1 1 --readers 10

A page has been drawn when what it is about is on the screen: rows of experiments, cells of groups, messages, tokens.
It is timed in the browser, from the start of its navigation on; the first page from the start of `rolltrace view` on.
Each is opened several times in a fresh browser context, and the median counts. A picture from the same server shows
what browser and machine take at least. Sizes that are not asked for are left out; stores are kept in --folder.
"""

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
from playwright.sync_api import Browser, sync_playwright

import rolltrace
from benchmarks.table import Row, at_most, render, write_json
from benchmarks.view_load import measure_load
from benchmarks.view_scale import first_page, measure_odd, measure_wide, median_of
from tests.browser.places import READY
from tests.browser.processes import launched, viewing
from tests.view.stores import BIG, write_big

STATIC = Path(rolltrace.__file__).parent / "view" / "static"


def measure_pages(browser: Browser, folder: Path, count: int, rounds: int) -> Iterator[Row]:
    """What pages of a store of so many trajectories take; one has 30 turns and 30,000 tokens."""
    store = folder / f"view-{count}"
    if not store.exists():
        write_big(store, count)
    subprocess.run(
        [sys.executable, "-m", "rolltrace", "store", "drain", "--once", str(store)], check=True
    )  # as a drainer leaves it
    section = f"viewer: {count:,} trajectories"
    yield Row(section, "first page, from the start of the server", first_page(browser, store, rounds), "s", at_most(1))
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
            yield Row(section, name, median_of(browser, url, selector, rounds), "s", target)


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
    parser.add_argument("--quick", action="store_true", help="small sizes of everything, each page once: a minute")
    parser.add_argument("--trajectories", type=int, nargs="*", default=[], help="stores of so many real ones, by 400")
    parser.add_argument("--wide", type=int, nargs="*", default=[], help="stores of so many small ones in 250 steps")
    parser.add_argument("--odd", type=float, nargs="*", default=[], help="odd trajectories, by this factor: 1 is all")
    parser.add_argument("--readers", type=int, default=0, help="so many clients on a store that is being written")
    parser.add_argument("--seconds", type=float, default=30, help="how long they read (default: 30)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each page is opened (default: 5)")
    parser.add_argument("--folder", type=Path, help="keep the stores here, for the next time")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if options.quick:
        options.trajectories, options.wide, options.odd, options.rounds = [400], [2_000], [0.02], 1
        options.readers, options.seconds = 3, 5
    rows: list[Row] = [*load()]
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        browser = launched(playwright)
        for count in options.trajectories:
            rows += measure_pages(browser, folder, count, options.rounds)
        for count in options.wide:
            rows += measure_wide(browser, folder, count, options.rounds)
        for factor in options.odd:
            rows += measure_odd(browser, folder, factor, options.rounds)
        if options.readers:
            rows += measure_load(browser, options.readers, options.seconds)
        browser.close()
    rows += [*load(), *sizes()]
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if options.json:
        write_json(rows, options.json)


def load() -> Iterator[Row]:
    """How busy the machine is with this and all else: figures of a busy one say little."""
    yield Row("machine", "processes that want to run, per processor", os.getloadavg()[0] / (os.cpu_count() or 1), "")


if __name__ == "__main__":
    main()
