"""`rolltrace export`: trajectories of a store in the formats of other tools."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rolltrace._amounts import counted
from rolltrace.cli.command import Command, Declaration, Group, StoreWord, option, section
from rolltrace.cli.options import FILTERS, IDS, JSON, PASS, STORE_AFTER_IDS, STORE_OPTION, Options, tell_of_older_runs
from rolltrace.cli.output import json_line, progress, working
from rolltrace.cli.passing import read_passing
from rolltrace.errors import ConfigError, NotFoundError, StoreError
from rolltrace.exchange import EXPORTS
from rolltrace.files import replacing

if TYPE_CHECKING:
    from rolltrace.exchange import Selection
    from rolltrace.query import Store


def _format(name: str) -> Command:
    form = EXPORTS[name]
    where = "the folder to write, new or empty" if form.is_folder else "the file to write; - is standard output"
    declarations: list[Declaration | StoreWord] = [
        IDS,
        STORE_OPTION,
        STORE_AFTER_IDS,
        option("-o, --output PATH", where, **({"required": True} if form.is_folder else {"default": "-"})),
    ]
    description = f"Write {form.help}."
    if not form.is_folder:
        declarations.append(option("--force", "write over a file that is there already"))
    if form.is_for_training:
        description += (
            " Training rollouts with status ok; --validate writes validation rollouts instead, --all whatever there "
            "is. Rollouts named by id are taken as they are, and so is a status or validate that --where "
            "asks about."
        )
        declarations.append(option("--all", "validation too, and rollouts that did not end well"))
    declarations += [FILTERS, PASS]
    if name == "dpo":
        chosen = option("--chosen FILTER", "such as label.good")
        rejected = option("--rejected FILTER", "such as label.bad; of the same group")
        declarations.append(section("pairs by label, instead of by reward", chosen, rejected))
    return Command(form.help, description, [*declarations, JSON], _run)


def _run(options: Options) -> int:
    from rolltrace.exchange import select
    from rolltrace.query import compile_where

    options.check_ids()
    chosen = EXPORTS[options.command]
    pairing = {name: getattr(options, name) for name in ("chosen", "rejected") if hasattr(options, name)}
    to_stdout = options.output == "-"
    if to_stdout and chosen.is_folder:
        raise ConfigError(f"the format {options.command} writes a folder; name it with -o FOLDER")
    if not to_stdout and not chosen.is_folder and not options.force:
        _refuse_to_overwrite(Path(options.output))
    store = options.open_store()
    conditions = {**options.filters, **options.rule}
    with working(f"reading {store.path}"):
        rules: list[str] = []
        selection = select(
            store,
            trajectory_ids=options.ids,
            for_training=chosen.is_for_training and not options.all,
            progress=progress("exporting"),
            **conditions,
        )
        if options.rule or options.save or "passed" in compile_where(options.where).fields:
            rules = read_passing(options, store).rules(selection.rows)
    tell_of_older_runs(selection.older_runs)
    if not selection.rows:
        raise NotFoundError(_why_nothing(store, selection, options))
    if chosen.is_folder:
        done = chosen.write_folder(selection, Path(options.output))
    elif to_stdout:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as a file would be
        done = chosen.write(selection, sys.stdout, **pairing)
    else:
        with _file(Path(options.output)) as out:
            done = chosen.write(selection, out, **pairing)
    report = sys.stderr if to_stdout else sys.stdout
    if options.json:
        fields: dict[str, Any] = {"format": options.command, "output": options.output, "chosen": len(selection.rows)}
        fields |= {"pass_rules": rules} if rules else {}
        print(json_line({**fields, "written": done.written, "skipped": dict(done.skipped)}), file=report)
    else:
        chosen_text = counted(len(selection.rows), "trajectory")
        summary = f"{chosen_text} chosen, {done.written} written{_left_out(done.skipped)}"
        print("; ".join([summary, *rules]), file=sys.stderr)
    return 0


def _left_out(reasons: Mapping[str, int]) -> str:
    return "".join(f"; left out {count}: {reason}" for reason, count in reasons.items())


def _why_nothing(store: Store, selection: Selection, options: Options) -> str:
    """Why there is nothing to export; an empty file would only be in the way of the corrected command."""
    if selection.left_out:
        return f"nothing was written{_left_out(selection.left_out)}"
    why = store.trajectories(**options.filters).why_empty()
    return f"nothing was written: {why or 'none of these trajectories meets the filter'}"


def _refuse_to_overwrite(path: Path) -> None:
    if path.is_file():
        raise StoreError(f"{str(path)!r} already exists; name another file with -o, or add --force to overwrite it")


@contextmanager
def _file(path: Path) -> Iterator[TextIO]:
    """The file to write, which appears when it is complete; a device or pipe is written as it is."""
    plain = path.is_file() or not path.exists()
    target = replacing(path) if plain else nullcontext(path)
    try:
        with target as file, file.open("w", encoding="utf-8", newline="\n") as out:
            yield out
    except BrokenPipeError:
        raise
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


export = Group(
    "write trajectories for other tools",
    "Export trajectories of a store in the formats of other tools.",
    {"formats": {name: _format(name) for name in EXPORTS}},
)
