"""`rolltrace plot`: rewards, lengths, flags and other values over the training steps."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import counted, duration, number
from rolltrace.cli.chart import Line, chart
from rolltrace.cli.command import command, option
from rolltrace.cli.options import JSON, PASS, STORE, Options, filters, tell_of_older_runs
from rolltrace.cli.output import plain, print_rows, screen_width, warn, working
from rolltrace.cli.passing import read_passing
from rolltrace.errors import ConfigError, MissingExtraError, StoreError

if TYPE_CHECKING:
    from rolltrace.pass_rule import PassMeaning
    from rolltrace.query import Curve, Curves

_MAX_WIDTH = 100
_HEIGHT = 13
_MAX_LINES = 12
"""More in one chart cannot be told apart."""
_FEW_STEPS = 50
"""Up to here each step is marked in a picture."""
_PICTURES = (".png", ".svg", ".pdf")
_TIMES = ("took", "duration_s")
_SHARES = {
    "pass": "share of rollouts that passed", "flat": "share of groups with equal rewards",
    "errors": "share with an error", "flags": "share with a flag",
}  # fmt: skip
_EXAMPLES = """what can be plotted: reward, pass, flat, tokens, prompt_tokens, turns, tools,
took, errors, flags, terms (all parts of the reward), term.NAME, score.NAME,
flag.NAME, advantage, staleness and other columns with numbers

examples:
  rolltrace plot                      the reward of all experiments
  rolltrace plot --of reward,terms,tokens --experiment grpo-7b
  rolltrace plot --of pass --threshold 0.5 --validate
  rolltrace plot --experiment a --experiment b -o reward.png
  rolltrace plot --of flag.cut_by_length --where "tag.level = 'hard'\""""


@command(
    "draw rewards and other values over the steps",
    "One chart per value, one line per experiment: the mean of each training step. Validation has lines of its own.",
    STORE,
    option("--of NAMES", "what to plot (default: reward)", default="reward"),
    filters(option("--experiment NAME", "may be given several times", multiple=True)),
    PASS,
    option("-o, --output FILE", "write an image instead (.png, .svg, .pdf); requires matplotlib"),
    JSON,
    epilog=_EXAMPLES,
)
def plot(options: Options) -> int:
    values = [value.strip() for value in options.of.split(",") if value.strip()]
    if not values:
        options.usage_error("--of needs names, such as reward,tokens")
    if options.output is not None and options.json:
        options.usage_error("-o and --json exclude each other")
    output = None if options.output is None else Path(options.output).expanduser()
    if output is not None and output.suffix.lower() not in _PICTURES:
        raise ConfigError(f"the output file must end in {', '.join(_PICTURES)}; not {options.output!r}")
    from rolltrace.query import curves_of

    store = options.open_store()
    with working(f"reading {store.path}"):
        if "pass" in values or options.rule or options.save:
            read_passing(options, store)
        answer = curves_of(store, values, **options.rule, **_conditions(options))
    tell_of_older_runs(answer.older_runs)
    if answer.without_step:
        warn(f"left out {counted(answer.without_step, 'trajectory')} without a step")
    charts: dict[str, list[Curve]] = {}
    for curve in answer.curves:
        charts.setdefault(curve.value, []).append(curve)
    if options.json:
        print_rows(_json(answer))
    elif not charts:
        print(f"nothing to plot: no trajectory with a step has {' or '.join(values)} ({plain(str(store.path))})")
    elif output is not None:
        with working("drawing"):
            _save(charts, output, answer.passing)
        print(f"wrote {plain(options.output)}: {counted(len(charts), 'chart')}")
    else:
        _print(charts, answer.passing)
    return 0


def _json(answer: Curves) -> Iterator[dict[str, Any]]:
    rules = {(meaning.project, meaning.experiment): meaning.rule.text for meaning in answer.passing}
    for curve in answer.curves:
        fields = curve._asdict()
        if curve.value == "pass":
            fields["pass_rule"] = rules[curve.project, curve.experiment]
        yield from ({**fields, **point._asdict()} for point in fields.pop("points"))


def _conditions(options: Options) -> dict[str, Any]:
    """The filters, with several experiments as a part of `where`."""
    conditions = options.filters
    names = conditions.pop("experiment") or []
    if len(names) == 1:
        conditions["experiment"] = names[0]
    elif names:
        quoted = ", ".join("'" + name.replace("\\", "\\\\").replace("'", "''") + "'" for name in names)
        where = f"experiment in ({quoted})"
        conditions["where"] = where if conditions["where"] is None else f"({conditions['where']}) and {where}"
    return conditions


def _print(charts: dict[str, list[Curve]], passing: Sequence[PassMeaning]) -> None:
    rows = shutil.get_terminal_size((_MAX_WIDTH, 24)).lines if sys.stdout.isatty() else 24
    # A chart and its legend fit a small terminal.
    width, height = min(screen_width(), _MAX_WIDTH), max(5, min(_HEIGHT, rows - 8))
    for at, (value, curves) in enumerate(charts.items()):
        shown = curves[-_MAX_LINES:]
        lines = [
            Line(
                _label(curve, curves),
                [(point.step, point.mean) for point in curve.points],
                _facts(curve, () if value != "pass" else passing),
            )
            for curve in shown
        ]
        if at:
            print()
        for text in chart(
            f"{plain(_title(value, passing))} by step", lines, width=width, height=height, show=_show(value)
        ):
            print(text)
        if len(shown) < len(curves):
            print(f"{counted(len(curves) - len(shown), 'older line')} not shown; choose with --experiment")


def _title(value: str, passing: Sequence[PassMeaning]) -> str:
    if value == "pass":
        texts = list(dict.fromkeys(meaning.text for meaning in passing))
        return f"{texts[0]}, share of rollouts" if len(texts) == 1 else "share of rollouts that passed"
    if value.startswith("flag."):
        return f"share with the flag {value.removeprefix('flag.')}"
    return _SHARES.get(value, f"mean {'duration' if value in _TIMES else value}")


def _show(value: str) -> Callable[[float], str]:
    """How the numbers of a value are written."""
    return duration if value in _TIMES else number


def _label(curve: Curve, beside: list[Curve]) -> str:
    """What tells a curve from those beside it."""
    names = [name for name in ("project", "run") if len({getattr(each, name) for each in beside}) > 1]
    label = " / ".join([*(str(getattr(curve, name)) for name in names if name == "project"), curve.experiment])
    label += f" run {curve.run}" if "run" in names else ""
    return f"{label} (validation)" if curve.validate else label


def _facts(curve: Curve, passing: Sequence[PassMeaning]) -> str:
    """From where to where: 0.21 -> 0.77, 11 steps, 176 trajectories; and what passes, if experiments differ in that."""
    show = _show(curve.value)
    first, last = curve.points[0], curve.points[-1]
    change = show(first.mean) if first is last else f"{show(first.mean)} -> {show(last.mean)}"
    what = "group" if curve.value == "flat" else "trajectory"
    count = counted(sum(point.n for point in curve.points), what)
    meant = {each.text for each in passing if (each.project, each.experiment) == (curve.project, curve.experiment)}
    differs = len({each.text for each in passing}) > 1
    return f"{change}, {counted(len(curve.points), 'step')}, {count}{f', {plain(*meant)}' if differs else ''}"


def _save(charts: dict[str, list[Curve]], output: Path, passing: Sequence[PassMeaning]) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError(
            "images require matplotlib: pip install matplotlib; without it: rolltrace plot in the terminal, or --json"
        ) from None
    figure = Figure(figsize=(8, 1 + 3.2 * len(charts)), layout="constrained")
    for axes, (value, curves) in zip(figure.subplots(len(charts), squeeze=False)[:, 0], charts.items()):
        for curve in curves:
            steps, means = [point.step for point in curve.points], [point.mean for point in curve.points]
            marker, label = "." if len(steps) < _FEW_STEPS else None, _in_picture(_label(curve, curves))
            (line,) = axes.plot(steps, means, marker=marker, label=label)
            low, high = zip(*((point.mean - point.std, point.mean + point.std) for point in curve.points))
            if value not in _SHARES and not value.startswith("flag."):
                axes.fill_between(steps, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        axes.set_title(_in_picture(_title(value, passing)))
        axes.set_xlabel("step")
        axes.set_ylabel("seconds" if value in _TIMES else "")
        axes.grid(alpha=0.3)
        axes.legend()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # no font has all of Unicode
            figure.savefig(output, dpi=150)
    except OSError as error:
        raise StoreError(f"cannot write {str(output)!r}: {error.strerror or error}") from error


def _in_picture(text: str) -> str:
    """Text as matplotlib shall draw it: a dollar sign begins no formula."""
    return plain(text).replace("$", r"\$")
