"""Several readers at once on a store that is being written: how long answers take, and what that costs the writer.

Readers are HTTP clients that ask what an open page asks, as often as it does, and one real browser on the live page.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from urllib.parse import urlencode

import httpx
from playwright.sync_api import Browser

from benchmarks.table import Row, at_most
from tests.browser.processes import viewing

OPS_PER_SEC = 2_000
PLACE = {"project": "bench", "experiment": "written"}
_PAGE_SEC = 3.0
"""How often a page asks again while its experiment is recorded."""
_PATIENCE_SEC = 60
"""Until the server and the browser have started, on a busy machine."""
_WRITE = """
import signal, sys, time, json
import rolltrace
store, rate, until = sys.argv[1], int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
rolltrace.init("bench", "written", "rolltrace", store=store, quiet=True)

@rolltrace.rollout_trace_op(kind="llm")
def generate(messages):
    return {"role": "assistant", "content": "an answer", "n": len(messages)}

@rolltrace.rollout_trace_op(kind="tool")
def search(query):
    return "results of " + query

ops, number, begin, busy = 0, 0, time.monotonic(), 0.0
while not ended and time.monotonic() < until:
    used = time.thread_time()
    with rolltrace.rollout_trace_attr(number // 8, number // 400, number % 8) as trajectory:
        messages = [{"role": "user", "content": "question %d" % number}]
        for turn in range(5):
            messages.append(generate(list(messages)))
            messages.append({"role": "tool", "content": search("words %d" % turn)})
        trajectory.reward(float(number % 3))
    busy += time.thread_time() - used
    number, ops = number + 1, ops + 10
    ahead = ops / rate - (time.monotonic() - begin)
    if ahead > 0:
        time.sleep(ahead)
print(json.dumps({"us_per_op": busy / ops * 1e6, "ops_per_sec": ops / (time.monotonic() - begin)}))
rolltrace.shutdown()
"""


@contextmanager
def _writing(store: Path, seconds: float) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", _WRITE, str(store), str(OPS_PER_SEC), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            yield writer
        finally:
            writer.kill()


def _figures(writer: "subprocess.Popen[str]") -> dict[str, float]:
    out, _ = writer.communicate(timeout=600)
    figures: dict[str, float] = json.loads(out)
    return figures


def _read(address: str, first_step: int, until: float, answer_secs: list[float], ages: list[float]) -> None:
    """What a page of a step asks, again and again."""
    step = {**PLACE, "step": first_step}
    paths = [
        "/api/status",
        "/api/experiments",
        f"/api/experiment?{urlencode(PLACE)}",
        f"/api/groups?{urlencode({**step, 'limit': 200})}",
        f"/api/facets?{urlencode(step)}",
    ]
    with httpx.Client(base_url=address, timeout=60) as client:
        while time.monotonic() < until:
            round_begin = time.monotonic()
            for path in paths:
                begin = time.perf_counter()
                answer = client.get(path).raise_for_status()
                answer_secs.append(time.perf_counter() - begin)
                if path == "/api/experiments":
                    ages.append(time.time() - max(row["end_ns"] for row in answer.json()["rows"]) / 1e9)
            time.sleep(max(0.0, round_begin + _PAGE_SEC - time.monotonic()))


def measure_load(browser: Browser, readers: int, seconds: float) -> Iterator[Row]:
    """Answers while a process records, and what it pays for that."""
    section = f"{readers} readers on a store that is written at {OPS_PER_SEC:,} ops/s"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        with _writing(Path(name) / "alone", seconds) as writer:
            alone = _figures(writer)
        store = Path(name) / "read"
        with _writing(store, seconds + _PATIENCE_SEC) as writer:
            time.sleep(3)  # there is something to look at
            with viewing(store) as address, browser.new_context() as context:
                page = context.new_page()
                page.goto(f"{address}/live")
                page.wait_for_selector(".figures")
                answer_secs: list[float] = []
                ages: list[float] = []
                until = time.monotonic() + seconds
                threads = [
                    threading.Thread(target=_read, args=(address, each % 3, until, answer_secs, ages))
                    for each in range(readers)
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            writer.terminate()
            read = _figures(writer)
    cuts = quantiles(answer_secs, n=20)
    yield Row(section, "answers, median", cuts[9], "s")
    yield Row(section, "answers, p95", cuts[18], "s", at_most(0.3))
    yield Row(section, "answers", len(answer_secs), "")
    yield Row(
        section, "the newest trajectory in an answer ended before, p95", quantiles(ages, n=20)[18], "s", at_most(3)
    )
    yield Row(section, "written", read["ops_per_sec"], "op/s")
    yield Row(section, "CPU of the writer, with readers", read["us_per_op"], "us/op")
    yield Row(section, "CPU of the writer, without", alone["us_per_op"], "us/op")
