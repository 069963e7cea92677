"""What goes into a shared file: every answer that its pages can ask for, from the handlers that the server has.

A file is about one trajectory, one group, a comparison, or the experiments of a store. It holds its trajectories with
all their tabs, and of the experiment around them no more than the pages show.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, Literal, NamedTuple

import msgspec

import rolltrace
from rolltrace.errors import ConfigError, NotFoundError, RolltraceError
from rolltrace.query import Op, Row, Store, branch_of, compare, detail_of, read_image, side_by_side
from rolltrace.query.model.store import Series
from rolltrace.query.model.trajectory import Branch, Message, OutlineOp
from rolltrace.view import api, requests
from rolltrace.view.archive import Archive
from rolltrace.view.cache import Loaded
from rolltrace.view.stores import Stores
from rolltrace.view.writes import Writing

Kind = Literal["trajectory", "group", "comparison", "store"]
LeaveOut = Callable[[str, Exception], None]
MAX_GROUP_SIZE = 64
"""How many rollouts of a group one file holds."""
_MAX_EXPERIMENTS = 20
_MAX_BRANCH_BYTES = 256 << 20
"""How much there may be of what a payload has beyond its first 50,000 characters, in a file."""
_MAX_PAYLOAD_BYTES = 4 << 20
"""Of how much payload of a trajectory there is anything: in a long one every prompt repeats the one before it, and what
was said is in the conversation."""
_MAX_IMAGE_BYTES = 64 << 20
_WHAT = (
    f"a page shows one trajectory, one group of at most {MAX_GROUP_SIZE}, or a comparison of 2 to "
    f"{api.MAX_COMPARED}; on the command line: their ids, or --step N --sample INDEX"
)
_GROUP = ("project", "experiment", "step", "validate", "sample_index", "run")


class SharedFile(NamedTuple):
    """The contents of a shared file."""

    kind: Kind
    title: str
    trajectory_ids: list[str]
    data: bytes
    """JSON: `Archive.encoded`."""
    plain: str
    """The same in few words, as HTML without scripts."""
    left_out: dict[str, int]
    """Reason -> how many; what the pages tell when somebody looks for it."""


def share_trajectories(
    store: Store, rows: Sequence[Row], *, named: bool, leave_out: LeaveOut | None = None
) -> SharedFile:
    """These trajectories: one, a group, or a comparison.

    Args:
        store: The store.
        rows: Their rows of the listing.
        named: Each was asked for by its id: several are a comparison, even if they are of one group.
        leave_out: Told of one that cannot be shared, and why; if not given, that is raised.

    Raises:
        ConfigError: there are none, or more than a file can hold.
    """
    kind = _kind_of(rows, named)
    collecting = _Collecting(store)
    ids: list[str] = []
    for row in rows:
        try:
            collecting.trajectory(row["trajectory_id"])
        except Exception as error:
            if leave_out is None:
                raise
            leave_out(row["trajectory_id"], error)
        else:
            ids.append(row["trajectory_id"])
    if not ids:
        raise ConfigError("none of the trajectories can be shared; rolltrace doctor says what is wrong with the store")
    shared_rows = [row for row in rows if row["trajectory_id"] in ids]
    if kind == "comparison" and len(ids) == 1:
        kind = "trajectory"
    collecting.around(shared_rows)
    records: list[str] = []
    if kind == "group":
        collecting.group(ids)
        records = collecting.group_records(shared_rows[0])
    if 2 <= len(ids) <= api.MAX_COMPARED:
        collecting.comparisons(ids)
    return collecting.shared(kind, shared_rows, records)


def share_store(store: Store) -> SharedFile:
    """The experiments of a store with their charts; no trajectories."""
    collecting = _Collecting(store)
    collecting.experiments()
    return collecting.shared("store", [])


def _kind_of(rows: Sequence[Row], named: bool) -> Kind:
    if not rows:
        raise ConfigError(f"no trajectory was chosen; {_WHAT}")
    if len(rows) == 1:
        return "trajectory"
    is_group = len({tuple(row[name] for name in _GROUP) for row in rows}) == 1 and rows[0]["sample_index"] is not None
    if is_group and not named and len(rows) <= MAX_GROUP_SIZE:
        return "group"
    if len(rows) <= api.MAX_COMPARED:
        return "comparison"
    raise ConfigError(f"{len(rows)} trajectories were chosen; {_WHAT}")


class _Collecting:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._loaded = Loaded(store)
        self._stores = Stores([store.path])
        self._archive = Archive()
        self._experiments: list[tuple[str, str]] = []
        self._branch_bytes = self._image_bytes = 0
        self._left_out: dict[str, int] = {}

    def trajectory(self, trajectory_id: str) -> None:
        """A trajectory with all its tabs."""
        asked, base = self._asked(trajectory_id=trajectory_id), f"/api/trajectory/{trajectory_id}"
        add = self._archive.add
        # Damage shows here first: nothing of a trajectory is kept before it could be read.
        head, conversation, raw = api.trajectory(asked), api.conversation(asked), api.whole_record(asked)
        add(base, head)
        add(f"{base}/conversation", conversation)
        add(f"{base}/raw", raw)
        if head.has_transitions:
            add(f"{base}/transitions", api.transitions(asked))
        self._images(conversation.messages)
        for whole, shown in zip(api.whole_messages(asked), conversation.messages):
            if whole != shown:
                add(f"{base}/message/{whole.index}", whole)
        if head.has_tokens:
            self._tokens(asked, base)
        outline = {int(each.op_id): each for each in head.outline}
        left_bytes = _MAX_PAYLOAD_BYTES
        for op in self._loaded.trajectory(trajectory_id).walk():
            if op.op_id in outline:
                left_bytes -= outline[op.op_id].payload_bytes
                if left_bytes >= 0:
                    self._op(f"{base}/op/{op.op_id}", op, outline[op.op_id])
                else:
                    self._leave_out("payloads of later calls, whose messages are in the conversation")

    def _tokens(self, asked: api.Asked, base: str) -> None:
        start, total = 0, 1
        while start < total:
            arguments = requests.TokensRequest(start=start, end=start + api.MAX_TOKENS)
            answer = api.tokens(asked._replace(arguments=arguments))
            self._archive.add(f"{base}/tokens {start}", answer)
            start, total = start + api.MAX_TOKENS, answer.total

    def _op(self, base: str, op: Op, line: OutlineOp) -> None:
        detail = self._archive.add(base, detail_of(op, line))
        parts: tuple[Literal["inputs", "outputs"], ...] = ("inputs", "outputs")
        for part in parts:
            waiting: list[tuple[list[str | int], Any]] = [([], detail[part])]
            seen: set[str] = set()
            while waiting:
                at, value = waiting.pop()
                for path in _stubs(value, at):
                    question = f"{base}/branch {part} {json.dumps(path, ensure_ascii=False, separators=(',', ':'))}"
                    if question in seen:
                        continue
                    seen.add(question)
                    branch = self._branch(question, op, part, path)
                    if branch is not None:
                        waiting.append((path, branch))

    def _branch(self, question: str, op: Op, part: Literal["inputs", "outputs"], path: list[str | int]) -> Any:
        if self._branch_bytes > _MAX_BRANCH_BYTES:
            self._leave_out("payloads of which only the beginning is in the file")
            return None
        try:
            value = branch_of(getattr(op, part), path)
        except NotFoundError:  # a key that is no text: the viewer cannot ask for it either
            return None
        self._branch_bytes += len(api.encode(value))
        self._archive.add(question, Branch(part, path, value))
        return value

    def around(self, rows: Sequence[Row]) -> None:
        """What pages show of the store and the experiments of these trajectories."""
        status = api.status_of(self._store, Writing(read_only=True))
        # Whose machine it was is nobody else's business; of what runs or was lost elsewhere, the pages show nothing.
        status.store_path, status.author, status.incomplete = status.store_name, "", []
        status.running, status.lost, status.recording = 0, 0, False
        self._archive.add("/api/status", status)
        steps: dict[tuple[str, str], set[int | None]] = {}
        for row in rows:
            steps.setdefault((row["project"], row["experiment"]), set()).add(row["step"])
        for (project, experiment), of_rows in steps.items():
            self._experiment(project, experiment, of_rows)

    def _experiment(self, project: str, experiment: str, only: set[int | None] | None = None) -> None:
        arguments = requests.ExperimentRequest(project=project, experiment=experiment)
        answer = api.experiment(self._asked(arguments))
        if only is not None:
            answer.training, answer.validation = _of_steps(answer.training, only), _of_steps(answer.validation, only)
            answer.runs = []
        self._archive.add(f"/api/experiment {project} {experiment}", answer)

    def group(self, ids: Sequence[str]) -> None:
        """The listings of a group."""
        named = f"trajectory_id in ({', '.join(repr(each) for each in ids)})"
        arguments = requests.PageRequest(where=named, all_runs=True, order="rollout_n", limit=len(ids))
        self._archive.add("/api/trajectories", api.trajectories(self._asked(arguments)))
        arguments.order = None
        self._archive.add("/api/groups", api.groups(self._asked(arguments)))

    def group_records(self, row: Row) -> list[str]:
        """What was recorded for the group of this rollout as a whole; returns their ids."""
        place = {name: row[name] for name in ("project", "experiment", "step", "validate", "run")}
        arguments = requests.ScopeRequest(**place, sample_index=str(row["sample_index"]))
        answer = api.group_records(self._asked(arguments))
        self._archive.add("/api/group_records", answer)
        ids = [record.trajectory_id for record in answer.records]
        for each in ids:
            self.trajectory(each)
        return ids

    def comparisons(self, ids: Sequence[str]) -> None:
        """All of them, and each two."""
        chosen = [tuple(ids), *(combinations(ids, 2) if len(ids) > 2 else ())]
        for each in chosen:
            comparison = compare([self._loaded.trajectory(trajectory_id) for trajectory_id in each])
            answer = side_by_side(comparison, [self._loaded.tokens(trajectory_id) for trajectory_id in each])
            self._archive.add(f"/api/compare {','.join(sorted(each))}", answer)
            for row in answer.rows:
                for turn in row.turns:
                    self._images(() if turn is None else turn.messages)

    def experiments(self) -> None:
        """The newest experiments of the store."""
        self.around([])
        answer = api.experiments(self._asked())
        answer.rows.sort(key=lambda row: row.last_seen_ns, reverse=True)
        self._archive.add("/api/experiments", answer)
        for row in answer.rows[:_MAX_EXPERIMENTS]:
            self._experiments.append((row.project, row.experiment))
            self._experiment(row.project, row.experiment)

    def shared(self, kind: Kind, rows: Sequence[Row], records: Sequence[str] = ()) -> SharedFile:
        ids = [row["trajectory_id"] for row in rows]
        group = {name: rows[0][name] for name in ("project", "experiment", "step")} if kind == "group" else None
        if group is not None:
            group["sample_index"] = str(rows[0]["sample_index"])
        data = self._archive.encoded(
            kind=kind, trajectories=[*ids, *records], group=group, experiments=self._experiments,
            version=rolltrace.__version__, made_ns=time.time_ns(),
        )  # fmt: skip
        return SharedFile(kind, self._title(kind, rows), ids, data, self._plain(kind, ids), self._left_out)

    def _title(self, kind: Kind, rows: Sequence[Row]) -> str:
        if kind == "store":
            return self._store.path.name
        first = rows[0]
        if kind == "trajectory":
            return f"{first['name']} {first['trajectory_id'][:8]}"
        if kind == "group":
            return f"{first['experiment']}, step {first['step']}, sample {first['sample_index']}"
        return f"{len(rows)} trajectories compared"

    def _plain(self, kind: Kind, ids: Sequence[str]) -> str:
        if kind == "store":
            return self._store._repr_html_()
        trajectories = [self._loaded.trajectory(each) for each in ids]
        if len(trajectories) == 1:
            return trajectories[0]._repr_html_()
        return compare(trajectories)._repr_html_()

    def _images(self, messages: Sequence[Message]) -> None:
        for name in _blobs(messages):
            if self._archive.has_image(name):
                continue
            if self._image_bytes > _MAX_IMAGE_BYTES:
                self._leave_out("images that are not in the file")
                continue
            try:
                image = read_image(self._store, name)
            except RolltraceError:  # the page says that it was not kept
                continue
            self._image_bytes += len(image.data)
            self._archive.add_image(name, image.media_type, image.data)

    def _leave_out(self, reason: str) -> None:
        self._left_out[reason] = self._left_out.get(reason, 0) + 1

    def _asked(self, arguments: Any = None, **path: str) -> api.Asked:
        return api.Asked(self._store, self._loaded, arguments, path, Writing(read_only=True), self._stores, None)


def _of_steps(series: Series, steps: set[int | None]) -> Series:
    """The columns of a series at these steps alone."""
    at = [index for index, step in enumerate(series.step) if step in steps]

    def cut(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: cut(each) for name, each in value.items()}
        return [value[index] for index in at]

    return Series(**{name: cut(value) for name, value in msgspec.structs.asdict(series).items()})


def _stubs(value: Any, path: list[str | int]) -> Iterator[list[str | int]]:
    """Where a bounded value was cut (`query.values`): the paths at which the viewer can ask for more."""
    if isinstance(value, dict):
        cut = value.get("$cut")
        if len(value) == 1 and isinstance(cut, dict):
            yield path
            value = cut.get("shown")
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        if isinstance(item, dict | list):
            yield from _stubs(item, [*path, key])


def _blobs(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        of_calls = [part for call in message.calls for part in (call.arguments, *call.result)]
        for part in (*message.parts, *of_calls):
            if part.blob is not None:
                yield part.blob
