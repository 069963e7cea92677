"""Every format by its name. To add one: a file beside this one, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TextIO, cast

if TYPE_CHECKING:
    from rolltrace.exchange.guessing import Peek
    from rolltrace.exchange.importer import LineReader, Source
    from rolltrace.exchange.selection import Exported, Selection


class ExportFormat(NamedTuple):
    """A format to export to."""

    module: str
    """Beside this one, or by its whole name."""
    help: str
    function: str = "write"
    """What writes it, in that module."""
    is_folder: bool = False
    is_for_training: bool = False
    """Models are trained on it: validation rollouts, and those that did not end well, are left out unless asked for."""

    def write(self, selection: Selection, out: TextIO, **pairing: str | None) -> Exported:
        """Write the chosen trajectories as text; `pairing` are arguments that one format alone has."""
        done = cast("Callable[..., Exported]", getattr(_module(self.module), self.function))(selection, out, **pairing)
        return done._replace(skipped={**done.skipped, **selection.left_out})

    def write_folder(self, selection: Selection, folder: Path) -> Exported:
        """Write the chosen trajectories as a folder."""
        return cast("Callable[[Selection, Path], Exported]", _module(self.module).write)(selection, folder)


class ImportFormat(NamedTuple):
    """A format to import from; its module has a function `reader`, and may have `recognise`."""

    module: str
    help: str
    fields: frozenset[str] = frozenset()
    """What each record of it has, and no other format."""
    columns: frozenset[str] = frozenset()
    """The same for a format that is tables."""
    files_in: tuple[str, ...] = ("*.jsonl",)
    """Patterns for its files in a folder; those that the first pattern with any finds are meant."""
    file_name: str = ".*"
    """What the whole name of such a file matches."""
    says_place: bool = False
    """Its records may name their project and experiment."""
    is_checked: bool = True
    """Its trajectories are looked at for problems, as those that are recorded."""
    is_remote: bool = False
    """What is named is no file, but something on a server; its module has a function `fetch`."""

    def fetch(self, address: str, folder: Path) -> Path:
        """Fetch what is named into a file of this folder."""
        return cast("Callable[[str, Path], Path]", _module(self.module).fetch)(address, folder)

    def reader(self, source: Source) -> LineReader:
        """The reader of one file: a function of a line."""
        from rolltrace.exchange.import_checks import checked

        if not self.says_place:
            source.target.named()
        read = cast("Callable[[Source], LineReader]", _module(self.module).reader)(source)
        return checked(read) if self.is_checked else read

    def files(self, folder: Path) -> list[Path]:
        """Which files of a folder are of this format; its module may choose them with a function `files`."""
        from rolltrace.exchange.importer import find_files

        choose = getattr(_module(self.module), "files", None)
        if choose is not None:
            return cast("Callable[[Path], list[Path]]", choose)(folder)
        return find_files(folder, *self.files_in, name=self.file_name)

    def recognise(self, peek: Peek) -> str | None:
        """Why a file is of this format; None if it is not.

        A format without a `recognise` in its module is known by its fields or columns.
        """
        ask = getattr(_module(self.module), "recognise", None)
        if ask is not None:
            return cast("Callable[[Peek], str | None]", ask)(peek)
        if self.columns and self.columns <= peek.columns:
            return f"a Parquet file with {listing(self.columns)}"
        return (
            f"its first record has {listing(self.fields)}"
            if self.fields and self.fields <= peek.record.keys()
            else None
        )


def listing(names: Iterable[str]) -> str:
    """Names as an English list, in alphabetical order."""
    *first, last = sorted(names)
    return f"{', '.join(first)} and {last}" if first else last


def _module(name: str) -> ModuleType:
    return import_module(name if "." in name else f"rolltrace.exchange.{name}")


EXPORTS = {
    "jsonl": ExportFormat("export_jsonl", "JSON lines, one trajectory each, with everything in it"),
    "csv": ExportFormat("export_csv", "a table, one line per trajectory, with rewards, scores and tags"),
    "parquet": ExportFormat("export_parquet", "the tables of the store, as a folder of Parquet files", is_folder=True),
    "sft": ExportFormat(
        "export_training", "chat-format JSON lines for supervised fine-tuning", "write_sft", is_for_training=True
    ),
    "dpo": ExportFormat(
        "export_training",
        "preference pairs: the best against the worst of each group, or as labelled",
        "write_dpo",
        is_for_training=True,
    ),
    "chrome": ExportFormat("export_chrome", "a timeline for ui.perfetto.dev and chrome://tracing"),
    # The viewer's pages, which are above this layer: loaded by name, when somebody asks for them.
    "html": ExportFormat("rolltrace.view.export_html", "one HTML file of a trajectory, a group or a comparison"),
}

IMPORTS = {
    "jsonl": ImportFormat(
        "import_jsonl",
        "what `rolltrace export jsonl` wrote",
        frozenset({"rolltrace"}),
        says_place=True,
        is_checked=False,
    ),
    "harbor": ImportFormat(
        "import_harbor",
        "Harbor's trajectories (ATIF) with their rewards: a jobs folder or a trial",
        files_in=("**/trajectory*.json",),
    ),
    "inspect": ImportFormat(
        "import_inspect", "logs of inspect, `.eval` and `.json`", files_in=("**/*.eval", "**/*.json")
    ),
    "trl": ImportFormat(
        "import_trl",
        "completions that TRL logs, `completions_*.parquet`",
        columns=frozenset({"step", "prompt", "completion", "advantage"}),
        files_in=("completions_*.parquet", "completions/completions_*.parquet"),
    ),
    "slime": ImportFormat("import_slime", "debug rollout data of slime and miles, `*.pt`", files_in=("*.pt",)),
    "nemo-rl": ImportFormat(
        "import_nemo_rl",
        "NeMo-RL's `train_data_step*.jsonl` and `val_data_step*.jsonl`",
        frozenset({"content", "rewards", "idx"}),
        files_in=("**/*_data_step*.jsonl",),
        file_name=r"(train|val)_data_step(\d{1,18})\.jsonl",
    ),
    "prime-rl": ImportFormat("import_prime_rl", "rollouts of prime-rl: its output folder, or `rollouts` in it"),
    "verifiers": ImportFormat(
        "import_verifiers",
        "traces of verifiers, `traces.jsonl`",
        frozenset({"traces", "task", "env"}),
        files_in=("**/traces.jsonl",),
    ),
    "art": ImportFormat(
        "import_art",
        "OpenPipe ART's trajectories, `trajectories/SPLIT/STEP.parquet`",
        columns=frozenset({"group_index", "reward", "metrics", "metadata", "messages"}),
        files_in=("**/*.parquet",),
        file_name=r"\d+\.parquet",
    ),
    "mini-swe-agent": ImportFormat(
        "import_mini_swe_agent", "trajectories of mini-swe-agent, `*.traj.json`", files_in=("**/*.traj.json",)
    ),
    "claude-code": ImportFormat(
        "import_claude_code",
        "sessions of Claude Code, ~/.claude/projects/*/*.jsonl",
        files_in=("**/*.jsonl",),
        file_name=r"(?:[0-9a-f]{8}-[0-9a-f-]{27}|agent-[0-9a-zA-Z-]+)\.jsonl",
    ),
    "codex": ImportFormat(
        "import_codex",
        "sessions of Codex, ~/.codex/sessions/Y/M/D/rollout-*.jsonl",
        files_in=("**/rollout-*.jsonl",),
    ),
    "mlflow": ImportFormat("import_mlflow", "traces of an MLflow experiment, by its name or id", is_remote=True),
    "weave": ImportFormat("import_weave", "calls of a Weave project, ENTITY/NAME", is_remote=True),
    "verl": ImportFormat(
        "import_verl", "step dumps of verl's trainer.rollout_data_dir", frozenset({"input", "output", "score"})
    ),
    "tinker": ImportFormat(
        "import_tinker", "rollout summaries of tinker-cookbook", frozenset({"iteration", "group_idx", "steps"})
    ),
    "chat": ImportFormat(
        "import_chat",
        "JSON or JSON lines with messages and, where known, reward, step and ids",
        frozenset({"messages"}),
        files_in=("*.jsonl", "*.json"),
        says_place=True,
    ),
}
