"""The figures as a table, as docs/benchmarks.md and as pictures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

OURS = "rolltrace"


class Column(NamedTuple):
    """One column of the table."""

    title: str
    figure: Callable[[dict[str, Any]], str]


def _asked(name: str) -> Callable[[dict[str, Any]], str]:
    def figure(figures: dict[str, Any]) -> str:
        answer = figures[name]
        if answer is None:
            return "-"
        return "fails" if "error" in answer else f"{answer['seconds'] * 1e3:,.0f} ms"

    return figure


COLUMNS = (
    Column("caller, small op", lambda figures: f"{figures['small_us']:,.0f} us"),
    Column("caller, real op", lambda figures: f"{figures['real_us']:,.0f} us"),
    Column("loop lag p99 / max", lambda figures: "{p99_ms:,.1f} / {max_ms:,.0f} ms".format(**figures["lag"]["traced"])),
    Column("until stored", lambda figures: f"{figures['stored_mb_per_sec']:,.1f} MB/s"),
    Column("disk, of raw JSON", lambda figures: f"{figures['disk_share']:.2f} x"),
    Column("complete after SIGKILL", lambda figures: "{complete} of {ended}".format(**figures["kill"])),
    Column("8 workers, fresh place", lambda figures: "{complete} of {traced}".format(**figures["workers"])),
    Column("list one step", _asked("list")),
    Column("open one trace", _asked("open")),
)

PAGE = """# rolltrace and the peers, measured

Made by `make bench-peers`, which installs the peers in environments of their own, runs all of them on one machine one
after the other, and writes this page.

{table}

- {date}, Python {python}, {cpus} cores, {memory_gib} GiB of memory. {versions}.
- The workload: {trajectories} trajectories of 20 ops ({workload}), replayed with nothing in between, as verl's tool
  agent traces them: the whole prompt's token ids and messages at each of seven turns, logprobs, tool results; 41 kB of
  msgpack an op{fewer}. Your own chats: `make bench-peers CHATS=file.jsonl`.
- **Caller**: what an op adds to the time of the function that is traced, the same calls without a tracer subtracted;
  medians. A small op has 100 bytes in and 100 bytes out.
- **Loop lag**: how late a timer of 1 ms fires while 16 trajectories run at once on one event loop; without a tracer
  {plain_lag}.
- **Until stored**: raw JSON divided by the time from the first op until everything is flushed. With rolltrace a
  `kill -9` loses nothing from the moment a call returns; this is until its drainer, started by the first op, has
  compressed everything.
- **Disk**: what is in the folder afterwards.
- **Complete after SIGKILL**: so many of the trajectories that had ended when their process was killed can be read
  whole. The vendor's server, where there is one, lives on. All of it lasts seconds: who sends a batch every five has
  sent little by then, and would lose that much of a long run.
- **8 workers**: eight processes begin at once where nobody has been yet; so many trajectories are there whole
  afterwards{failed}.
- **List, open**: the trajectories of one step; one of them with the payloads of all its ops. Median of three, in a
  process that has asked before.
- Langfuse's server needs databases that this benchmark does not install: its client sends to a server that keeps the
  bytes, so its disk column is what went over the wire, and there is nothing to ask.

![What tracing one realistic op costs the caller](images/peers-cost.svg)
![What the same rollouts take on disk](images/peers-disk.svg)
"""


def table(results: dict[str, Any]) -> str:
    rows = [["", *(column.title for column in COLUMNS)], ["---", *("---:" for _ in COLUMNS)]]
    for name, figures in results.items():
        label = f"**{name}**" if name == OURS else name
        if "error" in figures:
            rows.append([label, figures["error"].splitlines()[-1][:120], *("" for _ in COLUMNS[1:])])
        else:
            rows.append([label, *(column.figure(figures) for column in COLUMNS)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def write_page(report: dict[str, Any], docs: Path | None) -> str:
    """Returns the table; with a folder also writes the page and its pictures into it."""
    results = report["results"]
    text = table(results) + "\n"
    if docs is not None:
        good = {name: figures for name, figures in results.items() if "error" not in figures}
        dead = ", ".join(
            f"{name}: {figures['workers']['failed_workers']} of 8 processes died"
            for name, figures in good.items()
            if figures["workers"]["failed_workers"]
        )
        page = PAGE.format(
            table=table(results),
            versions="; ".join(f"{name} {figures['version']}" for name, figures in good.items()),
            plain_lag="{p99_ms:,.1f} ms (p99)".format(**good[OURS]["lag"]["plain"]),
            failed=f" ({dead})" if dead else "",
            fewer="".join(
                f"; {name} is given {figures['trajectories']} of them"
                for name, figures in good.items()
                if figures["trajectories"] < report["trajectories"]
            ),
            **{name: value for name, value in report.items() if name != "results"},
        )
        (docs / "benchmarks.md").write_text(page)
        draw(
            "us an op for the caller (logarithmic)",
            {n: f["real_us"] for n, f in good.items()},
            docs / "images/peers-cost.svg",
        )
        draw(
            "x raw JSON on disk (logarithmic)",
            {n: f["disk_share"] for n, f in good.items()},
            docs / "images/peers-disk.svg",
        )
    return text


def draw(title: str, values: dict[str, float], path: Path) -> None:
    """A bar for each peer, ours in another colour."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams.update({"svg.hashsalt": "rolltrace", "svg.fonttype": "none", "font.family": "sans-serif"})
    figure, axes = pyplot.subplots(figsize=(7.2, 0.36 * len(values) + 0.7), layout="constrained")
    names = list(reversed(values))
    bars = axes.barh(
        names, [values[name] for name in names], color=["#3b6fd4" if name == OURS else "#b8bcc4" for name in names]
    )
    axes.bar_label(
        bars, [f"{values[name]:,.0f}" if values[name] >= 10 else f"{values[name]:.2f}" for name in names], padding=4
    )
    axes.set_xscale("log")
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12)
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)
