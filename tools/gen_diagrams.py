"""Draw the diagrams of docs/how-it-works.md as SVG: `make gen`. Text stays text, for search and screen readers."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import NamedTuple

IMAGES = Path(__file__).parent.parent / "docs" / "images"
_LINE = 17
_STYLE = (
    "text{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#1f2933}"
    ".title{font-weight:600}.note{fill:#52606d;font-size:12px}"
    ".box{fill:#f5f7fa;stroke:#7b8794}.kept{fill:#e3f8f1;stroke:#0f766e}"
    ".place{fill:none;stroke:#cbd2d9;stroke-dasharray:5 4}"
    ".arrow{stroke:#0f766e;stroke-width:1.6;fill:none;marker-end:url(#tip)}"
)


class Box(NamedTuple):
    """A rectangle with a title and lines below it. `kept` is what is on disk, `place` what is around others."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()
    look: str = "box"

    def svg(self) -> str:
        corner = 10 if self.look == "place" else 6
        rows = [f'<text class="title" x="{self.x + 12}" y="{self.y + 22}">{escape(self.title)}</text>']
        for row, line in enumerate(self.lines, start=1):
            rows.append(f'<text class="note" x="{self.x + 12}" y="{self.y + 22 + row * _LINE}">{escape(line)}</text>')
        size = f'x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}"'
        return f'<rect class="{self.look}" {size} rx="{corner}"/>' + "".join(rows)


class Arrow(NamedTuple):
    """A line through points."""

    points: tuple[tuple[int, int], ...]

    def svg(self) -> str:
        path = " L".join(f"{x} {y}" for x, y in self.points)
        return f'<path class="arrow" d="M{path}"/>'


def diagram(width: int, height: int, title: str, parts: list[Box | Arrow]) -> str:
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    defs = f'<defs><style>{_STYLE}</style>{tip}<path d="M0 0 L8 4 L0 8 z" fill="#0f766e"/></marker></defs>'
    paper = f'<rect width="{width}" height="{height}" rx="12" fill="#ffffff"/>'  # readable on dark pages too
    return "\n".join(
        [head, f"<title>{escape(title)}</title>", defs, paper, *(part.svg() for part in parts), "</svg>", ""]
    )


DATA_FLOW = diagram(
    960,
    400,
    "How data flows: rollout processes write journals, the drainer makes the store of them, readers ask the store",
    [
        Box(16, 16, 250, 300, "rollout process (any number)", (), "place"),
        Box(
            32, 56, 218, 92, "your call", ("rollout_trace_op, trace_env,", "verl or tinker-cookbook", "runs unchanged")
        ),
        Box(
            32,
            200,
            218,
            92,
            "snapshot",
            ("arguments and result become", "bytes at once: microseconds,", "no thread, no network"),
        ),
        Arrow(((141, 148), (141, 198))),
        Box(16, 334, 250, 56, "journal", ("file on a local disk, 0600",), "kept"),
        Arrow(((141, 292), (141, 332))),
        Box(316, 16, 300, 300, "drainer (one per host and store)", (), "place"),
        Box(
            332,
            56,
            268,
            110,
            "shape",
            ("decode each record alone", "take secrets out", "check: set flags", "tokens to text"),
        ),
        Box(
            332,
            200,
            268,
            92,
            "keep house",
            ("write Parquet parts, merge finished steps", "retention and pruning", "start a sender for each backend"),
        ),
        Arrow(((466, 166), (466, 198))),
        Arrow(((266, 362), (290, 362), (290, 110), (330, 110))),
        Box(316, 334, 300, 56, "store", ("Parquet by project, experiment and step",), "kept"),
        Arrow(((466, 292), (466, 332))),
        Box(666, 16, 278, 176, "anyone, any time, also while it runs", (), "place"),
        Box(
            682,
            56,
            246,
            120,
            "query (DuckDB)",
            (
                "rolltrace view, ls, diff, plot, sql",
                "rolltrace.open() in notebooks",
                "pandas, Polars, Spark read the",
                "Parquet files without rolltrace",
            ),
        ),
        Arrow(((616, 362), (640, 362), (640, 116), (680, 116))),
        Box(
            666,
            216,
            278,
            100,
            "other tools",
            ("MLflow, Weave, Trackio, OTLP", "an outage delays, never loses", "at least once, under stable ids"),
        ),
        Arrow(((616, 362), (652, 362), (652, 266), (664, 266))),
    ],
)

AFTER_A_KILL = diagram(
    960,
    250,
    "What a kill -9 leaves: finished ops whole, the running op as interrupted, nothing lost",
    [
        Box(16, 16, 440, 218, "worker, until kill -9", (), "place"),
        Box(32, 56, 120, 64, "generate", ("returned",)),
        Box(162, 56, 120, 64, "search", ("returned",)),
        Box(292, 56, 148, 64, "generate", ("running when killed",)),
        Box(
            32,
            160,
            408,
            56,
            "journal in the page cache",
            ("start, end, start, end, start: committed one by one, length last",),
            "kept",
        ),
        Arrow(((92, 120), (92, 158))),
        Arrow(((222, 120), (222, 158))),
        Arrow(((352, 120), (352, 158))),
        Box(506, 16, 438, 218, "the next drainer, or any reader", (), "place"),
        Box(
            522,
            56,
            406,
            64,
            "the lock of the journal is free: its writer is gone",
            ("every committed record is read and checked by its checksum",),
        ),
        Box(522, 160, 130, 56, "generate", ("ok, complete",), "kept"),
        Box(660, 160, 130, 56, "search", ("ok, complete",), "kept"),
        Box(798, 160, 130, 56, "generate", ("interrupted",), "kept"),
        Arrow(((440, 188), (480, 188), (480, 88), (520, 88))),
        Arrow(((587, 120), (587, 158))),
        Arrow(((725, 120), (725, 158))),
        Arrow(((863, 120), (863, 158))),
    ],
)

DIAGRAMS = {"data-flow.svg": DATA_FLOW, "after-a-kill.svg": AFTER_A_KILL}

if __name__ == "__main__":
    for name, svg in DIAGRAMS.items():
        (IMAGES / name).write_text(svg)
    print(f"wrote {', '.join(DIAGRAMS)}")
