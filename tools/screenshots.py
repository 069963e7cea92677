"""Pictures of the viewer's pages: `make screenshots`, `python tools/screenshots.py [--every-page FOLDER [STORE ...]]`.

Without arguments, those that the README and the docs show are written to docs/images, of a store that is recorded for
them, and of a run of `rolltrace demo`. With --every-page, every page of each store is written to FOLDER/STORE, in both
themes and two widths, for whoever looks at them as a designer would; the stores are named, or a new one is recorded.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import rolltrace  # noqa: E402 - of this checkout
from tests.browser.processes import launched, viewing  # noqa: E402 - of this checkout
from tests.view.stores import write_demo  # noqa: E402

IMAGES = ROOT / "docs" / "images"
WIDE, NARROW = (1440, 900), (760, 900)
_COLOURS = 255
_LONG_REPLY = 1_500
"""Tokens: a comparison of longer ones would show little but differences."""
_PATIENCE_MS = 60_000


class Kept(NamedTuple):
    """A picture that is shown in the docs."""

    name: str
    page: str
    """One of `every_page`."""
    theme: str = "light"


KEPT = (
    Kept("view-step", "step groups"),
    Kept("view-experiment", "experiment"),
    Kept("view-trajectory", "conversation"),
    Kept("view-tokens-dark", "tokens", "dark"),
    Kept("view-ops", "ops"),
    Kept("view-compare", "compare 2"),
    Kept("view-compare-tokens-dark", "compare tokens", "dark"),
    Kept("view-search", "search"),
    Kept("view-labels", "labels"),
)


KEPT_OF_DEMO = (Kept("demo-experiment", "experiment"), Kept("demo-step", "step"), Kept("demo-trajectory", "hack"))
"""Of `rolltrace demo`: where its reward hack is seen."""


class Shown(NamedTuple):
    """A page, and what is on it once it has been drawn."""

    path: str
    ready: str
    keys: str = ""
    """Pressed once it is there."""


def every_page(address: str) -> dict[str, Shown]:
    """Every page and tab of a store by name, those that it has."""

    def ask(endpoint: str, **arguments: Any) -> Any:
        return httpx.get(f"{address}/api/{endpoint}", params=arguments, timeout=60).raise_for_status().json()

    pages = {"experiments": Shown("/", "tbody tr, .empty h1"), "live": Shown("/live", ".figures, .empty h1")}
    rows = ask("experiments")["rows"]
    pages["search none"] = Shown("/search?q=no-such-text-anywhere", ".empty h1")
    if not rows:
        return pages
    place = max(rows, key=lambda row: row["trajectories"])
    place = {name: place[name] for name in ("project", "experiment")}
    home = f"/e/{quote(place['project'], safe='')}/{quote(place['experiment'], safe='')}"
    training = ask("experiment", **place)["training"]
    sized_steps = [(size, step) for size, step in zip(training["trajectories"], training["step"]) if step is not None]
    step = max(sized_steps)[1] if sized_steps else "none"
    at_step = {**place, "step": step} if sized_steps else place
    pages["experiment"] = Shown(home, ".charts canvas")
    pages["step groups"] = Shown(f"{home}/step/{step}?sort=-std", ".cell, .empty h1")
    pages["step list"] = Shown(f"{home}/step/{step}?view=list", ".list-row a")
    pages["help"] = Shown(f"{home}/step/{step}", ".cell, .empty h1", "?")
    wrong = quote("reward < 0.5 and rewrd > 1")
    pages["step wrong filter"] = Shown(f"{home}/step/{step}?where={wrong}", ".where-problem")
    pages["step no match"] = Shown(f"{home}/step/{step}?where={quote('reward > 1e9')}", ".empty h1")
    flagged = ask("trajectories", **at_step, where="flag = 'prefix_break' and turns > 2", limit=1)["rows"]
    listed = flagged or ask("trajectories", **at_step, order="-turns", limit=1)["rows"]
    for tab, ready in _TABS.items():
        query = "" if tab == "conversation" else f"?tab={tab}"
        pages[tab] = Shown(f"/t/{listed[0]['trajectory_id']}{query}", f"{ready}, .empty h1")
    with_steps = ask("trajectories", project="games", limit=1)["rows"]
    if with_steps:
        pages["transitions"] = Shown(f"/t/{with_steps[0]['trajectory_id']}?tab=transitions", _TABS["transitions"])
    labelled = ask("trajectories", **at_step, where="label is not null", limit=1)["rows"]
    if labelled:
        pages["labels"] = Shown(f"/t/{labelled[0]['trajectory_id']}", ".said")
    pages["tokens advantage"] = Shown(
        f"/t/{listed[0]['trajectory_id']}?tab=tokens&fill=advantage", ".tokens, .empty h1"
    )
    groups = [row for row in ask("groups", **at_step, order="-std", limit=50)["rows"] if len(row["cells"]) > 1]
    if groups:
        typical = [row for row in groups if (row["response_tokens_max"] or 0) < _LONG_REPLY] or groups
        chosen = max(typical, key=lambda row: len(row["cells"]))
        several = [cell for cell in chosen["cells"] if cell["turns"] > 2]
        cells = sorted(several if len(several) > 1 else chosen["cells"], key=lambda cell: -_number(cell["reward"]))
        two = ",".join((cells[0]["trajectory_id"], cells[-1]["trajectory_id"]))
        four = ",".join(cell["trajectory_id"] for cell in cells[:4])
        pages["compare 2"] = Shown(f"/compare?ids={two}", ".compare-row, .compare-bar")
        pages["compare tokens"] = Shown(f"/compare?ids={two}&diff=tokens", ".reply-tokens, .compare-message")
        pages["compare 4"] = Shown(f"/compare?ids={four}", ".compare-row, .compare-bar")
    word = "certificate" if place["project"] in ("maths", "bench") else "the"
    scope = f"&project={quote(place['project'])}&experiment={quote(place['experiment'])}"
    pages["search"] = Shown(f"/search?q={word}{scope}&step={step}", ".hit, .empty h1")
    return pages


def pages_of_demo(address: str) -> dict[str, Shown]:
    """The last step of `rolltrace demo`, and a rollout in it that found the fault of the reward."""
    home, step = "/e/demo/calculator", 30
    asked: dict[str, str | int] = {
        "project": "demo",
        "experiment": "calculator",
        "step": step,
        "order": "-reward",
        "limit": 1,
    }
    rows = httpx.get(f"{address}/api/trajectories", params=asked, timeout=60).raise_for_status().json()["rows"]
    return {
        "experiment": Shown(home, ".charts canvas"),
        "step": Shown(f"{home}/step/{step}", ".cell"),
        "hack": Shown(f"/t/{rows[0]['trajectory_id']}", ".message"),
    }


def label_some(store: Path) -> None:
    """What two people say of a rollout with several turns, in the step that most pictures show."""
    asked = rolltrace.open(store)
    place = max(asked.steps(project="maths", experiment="grpo-7b"), key=lambda row: row["trajectories"])
    rows = asked.trajectories(experiment="grpo-7b", step=place["step"], where="turns > 2 and reward > 0.5").rows()
    trajectory_id = rows[0]["trajectory_id"]
    asked.label(trajectory_id, "good", author="ann")
    asked.label(trajectory_id, "hack", author="bob", turn=1, reason="promises a refund before it looked")
    asked.label(trajectory_id, "note", "The second turn is worth a look: the fare is guessed.", author="ann")


def share_two(store: Path, file: Path) -> Shown:
    """One file with the best and the worst rollout of a sample, side by side."""
    asked = rolltrace.open(store)
    place = max(asked.steps(project="maths", experiment="grpo-7b"), key=lambda row: row["trajectories"])
    rows = asked.groups(experiment="grpo-7b", step=place["step"], validate=False, order="-std").rows()
    group = next(row for row in rows if row["size"] > 4 and row["response_tokens_max"] < _LONG_REPLY)
    rollouts = asked.group(place["step"], group["sample_index"], experiment="grpo-7b", validate=False)
    scored = sorted((row for row in rollouts if row["reward"] is not None), key=lambda row: row["reward"])
    chosen = [scored[-1]["trajectory_id"], scored[0]["trajectory_id"]]
    command = [sys.executable, "-m", "rolltrace", "export", "html", str(store), "-o", str(file), *chosen]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Shown("", ".compare-row")


_CELLS = (
    "import rolltrace\n\nstore = rolltrace.open('rolltrace-demo')\n"
    "store.steps(experiment='calculator').df()[['step', 'trajectories', 'reward_mean', 'pass_rate']].tail(3)",
    "best = store.trajectories(step=30, order='-reward', limit=1)[0]\n"
    "rolltrace.view(store.trajectory(best['trajectory_id']), height=460)",
)


def run_notebook(demo: Path, file: Path) -> Shown:
    """A notebook about the demo, as Jupyter shows it."""
    kernel = demo.parent / "kernels" / "here"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "here", "language": "python"}))
    os.environ["JUPYTER_PATH"] = str(demo.parent)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in _CELLS])
    resources = {"metadata": {"path": str(demo.parent)}}
    NotebookClient(notebook, kernel_name="here", resources=resources).execute()
    # Without what a page of nbconvert loads from elsewhere.
    exporter = HTMLExporter(template_name="lab", mathjax_url="", require_js_url="", jquery_url="", mermaid_js_url="")
    file.write_text(exporter.from_notebook_node(notebook)[0])
    return Shown("", "iframe")


def pages_of_two(first: str, second: str) -> dict[str, Shown]:
    """The rewards of an experiment of each of two stores."""
    chosen = ",".join((f"{first}/maths/grpo-7b", f"{second}/demo/calculator"))
    both = f".overlay-chart:has-text('{first}'):has-text('{second}') canvas"
    return {"stores": Shown(f"/?sel={quote(chosen, safe='/,')}", both)}


_TABS = {
    "conversation": ".message",
    "tokens": ".token-block",
    "ops": ".op-track i",
    "transitions": ".transition",
    "raw": ".json",
}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("-inf")


@contextmanager
def opened(browser: Browser, size: tuple[int, int], theme: str) -> Iterator[Page]:
    """A page of a fresh browser."""
    settings: dict[str, Any] = {"viewport": {"width": size[0], "height": size[1]}, "color_scheme": theme}
    with browser.new_context(**settings, locale="en-US") as context:
        context.set_default_timeout(_PATIENCE_MS)
        yield context.new_page()


def take(page: Page, address: str, shown: Shown, file: Path) -> None:
    """Write one picture, with no more colours than it needs."""
    page.goto(address + shown.path)
    page.wait_for_selector(shown.ready)
    page.wait_for_function("!document.querySelector('[aria-busy=true]')")
    if shown.keys:
        page.keyboard.press(shown.keys)
        page.get_by_role("dialog").wait_for()
    page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 250)))")  # charts, fonts
    file.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=file, animations="disabled", caret="hide")
    with Image.open(file) as picture:
        flat = picture.convert("RGB").quantize(_COLOURS, Image.Quantize.MEDIANCUT, kmeans=2, dither=Image.Dither.NONE)
    flat.save(file, optimize=True)


def take_kept(browser: Browser, address: str, pages: dict[str, Shown], pictures: tuple[Kept, ...]) -> None:
    """Pictures of the docs."""
    for picture in pictures:
        with opened(browser, WIDE, picture.theme) as page:
            take(page, address, pages[picture.page], IMAGES / f"{picture.name}.png")
    sizes = {file.name: file.stat().st_size for file in IMAGES.glob("*.png")}
    print(f"{len(pictures)} pictures in {IMAGES}; all there: {sum(sizes.values()) / 1e6:.2f} MB")


def take_every_page(browser: Browser, address: str, folder: Path) -> None:
    """Every page in both themes, and in a narrow window."""
    for name, shown in every_page(address).items():
        for size, theme in ((WIDE, "light"), (WIDE, "dark"), (NARROW, "light")):
            file = folder / f"{name.replace(' ', '-')}-{size[0]}-{theme}.png"
            with opened(browser, size, theme) as page:
                take(page, address, shown, file)
            print(file, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every-page", type=Path, metavar="FOLDER", help="every page, to look at")
    parser.add_argument("stores", type=Path, nargs="*", metavar="STORE", help="with --every-page: of which stores")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        stores = options.stores or [write_demo(Path(temporary) / "demo", samples=16)]
        browser = launched(playwright)
        for store in stores:
            with viewing(store) as address:
                if options.every_page:
                    take_every_page(browser, address, options.every_page / store.name)
                else:
                    label_some(store)
                    take_kept(browser, address, every_page(address), KEPT)
                    shared = Path(temporary) / "compared.html"
                    take_kept(
                        browser,
                        shared.as_uri(),
                        {"shared": share_two(store, shared)},
                        (Kept("view-shared", "shared"),),
                    )
        if not options.every_page:
            demo = record_demo(Path(temporary))
            with viewing(demo) as address:
                take_kept(browser, address, pages_of_demo(address), KEPT_OF_DEMO)
            with viewing(stores[0], str(demo)) as address:
                take_kept(browser, address, pages_of_two(stores[0].name, demo.name), (Kept("view-stores", "stores"),))
            notebook = Path(temporary) / "notebook.html"
            take_kept(
                browser,
                notebook.as_uri(),
                {"notebook": run_notebook(demo, notebook)},
                (Kept("view-notebook", "notebook"),),
            )
        browser.close()


def record_demo(folder: Path) -> Path:
    command = [sys.executable, "-m", "rolltrace", "demo", "--no-view", "--store", str(folder / "rolltrace-demo")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "rolltrace-demo"


if __name__ == "__main__":
    main()
