"""Records with anything in them, in frames whose checksums are right, through everything that reads a store.

Each round takes the records of a real run, changes many of them, puts them between others that stay as they are, and
asks: nothing raises, the others arrive once and unchanged, live reading and draining agree, and each record is a row or
counted. `ROLLTRACE_NIGHTLY=1` makes a hundred times as many.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from PIL import Image

import rolltrace
from rolltrace.backends.backend import Refused
from rolltrace.cli import main
from rolltrace.drain import follower
from rolltrace.exchange import EXPORTS
from rolltrace.exchange.selection import select
from rolltrace.journal import journal_files, read_journals
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.pending import asked_for
from rolltrace.keeper.sender import Sender
from rolltrace.query import Store, Trajectory, open_store
from rolltrace.query.trajectory import read_whole
from tests.draining import drain, rows
from tests.hostile import META, Extension, Packed, Pairs, pack, unpack, write_segment
from tests.nightly import nightly

ROUNDS = nightly(200, 1)
MUTANTS = nightly(1100, 80)
CONTROLS = 6
TABLES = ("trajectories", "spans", "transitions", "scores", "notes", "flags", "losses")

PAYLOADS = {"trajectory_start": (7,), "trajectory_end": (10,), "op_start": (8,), "op_end": (11, 12), "event": (6,)}
"""Which fields of a record hold what was traced."""


def nested(opening: bytes, depth: int, inside: bytes = b"\xc0") -> Packed:
    return Packed(opening * depth + inside)


def deep_markers(depth: int) -> Packed:
    raw = b"\x01"
    for _ in range(depth):
        raw = msgspec.msgpack.encode(msgspec.msgpack.Ext(5, b"\x93\xa5depth\x01" + raw))
    return Packed(raw)


STRANGE: list[Callable[[random.Random], Any]] = [
    lambda chance: None,
    lambda chance: True,
    lambda chance: chance.choice([0, -1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**31), -(2**63)]),
    lambda chance: chance.choice([0.5, -0.0, 1e308, -1e308, float("nan"), float("inf"), float("-inf")]),
    lambda chance: chance.choice(["", "x", "3", "running", "interrupted", "\0", "a\nb\x1b[31m", "../../x", "é" * 300]),
    lambda chance: chance.choice([b"", b"\xff\xfe", bytes(16), bytes(15), b"k" * 3000]),
    lambda chance: [],
    lambda chance: [1, "a", None],
    lambda chance: Pairs(),
    lambda chance: Pairs([("a", 1), ("a", 2), (Pairs([("k", 1)]), 3), ([1, [2]], 4), (1.5, 5), (None, 6)]),
    lambda chance: Packed(b"\xa4\xff\xfe\xed\xa0"),  # text that is no UTF-8
    lambda chance: Extension(12, "lone \ud800 surrogate".encode("utf-8", "surrogatepass")),
    lambda chance: Extension(12, b"\xff\xff"),
    lambda chance: Extension(10, hex(1 << chance.choice([64, 70, 1100, 40_000])).encode()),
    lambda chance: Extension(10, b"-0xffffffffffffffffffff"),
    lambda chance: Extension(10, b"no number"),
    lambda chance: Extension(11, bytes(chance.choice([16, 3]))),
    lambda chance: Extension(-1, bytes(chance.choice([4, 8, 12, 5]))),
    lambda chance: Extension(-1, b"\xff" * chance.choice([4, 8, 12])),
    lambda chance: Extension(chance.choice([1, 2, 3, 4, 5]), STRANGE[chance.randrange(12)](chance)),
    lambda chance: Extension(1, ["<f8", [10**6, 10**6], b""]),
    lambda chance: Extension(1, ["<f8", [10**9, 0], b""]),
    lambda chance: Extension(1, ["<i8", [2, 1], bytes(16)]),
    lambda chance: Extension(1, ["<f4", [1] * 60, bytes(4)]),
    lambda chance: Extension(2, ["t", "f4", [3], "cpu", Pairs([("min", float("nan"))])]),
    lambda chance: Extension(3, [chance.choice(["../../../x", "/etc/passwd", "00ff" * 8, ""]), "RGB", [1, 1], None]),
    lambda chance: Extension(4, ["t", Pairs([("k", "v")]), "why"]),
    lambda chance: Extension(5, ["bytes", 7, Pairs([("k", "v")])]),
    lambda chance: Extension(chance.choice([6, 77, -7]), b"abc"),
    lambda chance: nested(b"\x91", chance.choice([100, 127, 128, 129, 330, 500, 5000])),
    lambda chance: nested(b"\x81\xa1k", chance.choice([100, 127, 128, 129, 330, 500, 5000])),
    lambda chance: nested(b"\x81\x91\x01", chance.choice([40, 128, 330])),
    lambda chance: nested(b"\x82\x01\x01\xa11", chance.choice([40, 120, 330])),  # 1 and "1": a `$map` in JSON
    lambda chance: deep_markers(chance.choice([3, 64, 65, 200])),
    lambda chance: Packed(b"\xdd\xff\xff\xff\xff"),
    lambda chance: Packed(b"\xc1"),
    lambda chance: Pairs([("$int", "zz")]),
    lambda chance: Pairs([("$float", "nan")]),
    lambda chance: Pairs([("$column", "prompt_ids")]),
    lambda chance: Pairs([("$op", Pairs([("op_id", 2**63), ("path", ["inputs", 3])]))]),
    lambda chance: Pairs([("role", ["x"]), ("content", 3), ("tool_calls", 7)]),
    lambda chance: [Pairs([("role", "user"), ("content", None)])],
]  # fmt: skip


def slots(value: Any) -> Iterator[tuple[Any, int]]:
    """Every place in a structure: the list and the index in it; pairs are lists here."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Pairs):
            for at, pair in enumerate(each):
                each[at] = pair = list(pair)
                yield from ((pair, place) for place in range(len(pair)))
                waiting += pair
        elif isinstance(each, list):
            yield from ((each, at) for at in range(len(each)))
            waiting += each
        elif isinstance(each, Extension) and not isinstance(each.value, bytes):
            waiting.append(each.value)


def place_in(record: list[Any], chance: random.Random) -> tuple[Any, int]:
    """Where to change it: a field of the record, all of what was traced, or something inside that."""
    kind = chance.random()
    payloads = [at for at in PAYLOADS.get(str(record[0]), ()) if at < len(record)]
    inside = [place for place in slots(record) if place[0] is not record]
    if kind < 0.3 and payloads:
        return record, chance.choice(payloads)
    return chance.choice(inside) if kind < 0.8 and inside else (record, chance.randrange(len(record)))


def strange(chance: random.Random) -> Any:
    return chance.choice(STRANGE)(chance)


def mutated(body: bytes, chance: random.Random) -> bytes:
    """One record, changed in one to three places."""
    if chance.random() < 0.12:
        return mutated_bytes(body, chance)
    record = unpack(body)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        holder, at = place_in(record, chance)
        how = chance.random()
        if how < 0.75:
            holder[at] = strange(chance)
        elif how < 0.85:
            del holder[at : None if chance.random() < 0.3 else at + 1]
        else:
            holder.insert(at, strange(chance))
        if not record:
            break
    try:
        return pack(record)
    except (ValueError, TypeError):  # half a pair
        return mutated_bytes(body, chance)


def mutated_bytes(body: bytes, chance: random.Random) -> bytes:
    changed = bytearray(body)
    how = chance.random()
    if how < 0.3:
        del changed[chance.randrange(1, len(changed)) :]
    elif how < 0.5:
        at = chance.randrange(len(changed))
        changed[at:at] = chance.randbytes(chance.randrange(1, 9))
    else:
        for _ in range(chance.randrange(1, 5)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def strange_header(chance: random.Random) -> dict[str, Any]:
    meta: Any = Pairs(META.items())
    losses: bytes | None = None
    if chance.random() < 0.7:
        for _ in range(chance.randrange(1, 3)):
            meta.append((chance.choice([*META, "token2text", "sequence", 7]), strange(chance)))
    if chance.random() < 0.6:
        losses = pack(
            chance.choice(
                [
                    strange(chance),
                    Pairs([("journal_full", Pairs([("3", 5), (chance.choice(["x", "", str(2**70), "-4"]), 2)]))]),
                    Pairs([("disk_full", Pairs([("1", chance.choice([-3, 2**63, 1.5, "a", 7]))]))]),
                    Pairs([(strange(chance), strange(chance))]),
                ]
            )
        )
        losses = losses if len(losses) < 1500 else None
    described = pack(meta) if chance.random() < 0.9 else pack(strange(chance))
    return {"meta": described if len(described) < 1900 else META, "losses": losses}


class Decoder:
    """A tokenizer that only its own process can use."""

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(chr(97 + each % 26) for each in ids)


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt_ids: list[int], messages: Any = None, tokenizer: Any = None) -> dict[str, Any]:
    return {
        "token_ids": [5, 6, 7], "logprobs": [-0.25, -1.5, float("-inf")], "response_mask": [1, 1, 0], "text": "你好 🎉",
        "finish_reason": "stop", "policy_version": 3,
    }  # fmt: skip


@rolltrace.rollout_trace_op(kind="tool")
def search(query: Any, options: Any = None) -> Any:
    if query == "fail":
        raise ValueError("no luck")
    return {"found": [query, options], "array": np.arange(6.0).reshape(2, 3)}


@rolltrace.rollout_trace_op
def turn(number: int) -> Any:
    messages = [{"role": "user", "content": f"question {number}" + "?" * 70}]
    reply = generate(list(range(300, 600 + number)), messages, Decoder())
    with contextlib.suppress(ValueError):
        search("fail")
    return [search({"deep": [number, {"a": 1 << 70}]}, {"seed": number}), reply, messages]


def run_a_trajectory(number: int) -> None:
    with rolltrace.rollout_trace_attr(sample_index=number % 3, step=number % 2, rollout_n=number, level="hard") as made:
        said = turn(number)
        search(Image.new("RGB", (2, 2), (number, 0, 0)))
        made.transition({"prompt": said[2], "policy_response": "x" * 80, "reward_data": {"r": "0.75"}}, reward=0.5)
        made.transition({"env_state": {"s": 1}}, episode_done=True, stop_reason="done")
        made.reward(float(number), terms={"format": 0.5})
        rolltrace.score(made, name="advantage", value=-0.5, reason="why")
        made.note("note", odd="\ud800", when=number)
        made.tag(fine=True)


def records_of(store: Path) -> list[bytes]:
    return [segment.data[item.body_at : item.body_at + item.size_bytes] for segment, item in read_journals(store)]


def trace(store: Path, count: int) -> list[bytes]:
    rolltrace.init("p", "e", "rolltrace", store=store, token2text=True)
    for number in range(count):
        run_a_trajectory(number)
    rolltrace.shutdown()
    return records_of(store)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The records of a real run, of every kind, the rare ones made by hand."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ROLLTRACE_DRAIN", "off")
        found = trace(tmp_path_factory.mktemp("originals"), 1)
    named = {unpack(body)[0]: body for body in found}
    assert named.keys() >= {"trajectory_start", "trajectory_end", "op_start", "op_end", "event", "blob"}
    event = unpack(named["event"])
    drop = [*event[:3], "drop", *event[4:6], Pairs([("reason", "sample_limit"), ("trajectories", ["ab" * 16])])]
    text = Pairs([("text", "abc def"), ("prompt_chars", 3), ("piece_chars", [3, 4])])
    lost = Pairs([("text", None), ("why", "it cannot decode")])
    made = [pack(drop), pack([*event[:3], "text", *event[4:6], text]), pack([*event[:3], "text", *event[4:6], lost])]
    return [*found, *made * 2]


class Everything:
    """A backend that takes all it is given."""

    name = "everything"

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()

    def send(self, trajectories: Any) -> list[Refused]:
        self.taken.update(each.trajectory_id for each in trajectories)
        return []

    def update(self, trajectories: Any) -> None:
        """There is nothing to bring up to date."""

    def close(self) -> None:
        """There is nothing to close."""


def in_order(found: list[dict[str, Any]], without: tuple[str, ...] = ()) -> list[str]:
    """Rows that can be compared, NaN included."""
    return sorted(repr({name: value for name, value in row.items() if name not in without}) for row in found)


def drain_piecemeal(store: Path) -> None:
    """Each batch by a drainer of its own, which is killed then."""

    class Killed(Exception):
        """Once a batch is in the tables."""

    def stop(done: int, total: int) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(follower, "MAX_BATCH_BYTES", 16 << 10)
        while journal_files(store):
            drainer = follower.Follower(store)
            with drainer.working(), contextlib.suppress(Killed):
                drainer.drain(stop)


def run(*words: object) -> str:
    """The command's output; it must not fail."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main([str(word) for word in words])
    assert code == 0 or "doctor" in words or "journal" in words, f"{words[0]} gave {code}"
    return out.getvalue()


def ask_everything(store: Path, chance: random.Random) -> None:
    for words in (
        ["ls"],
        ["ls", "--json"],
        ["groups"],
        ["stats"],
        ["doctor"],
        ["live"],
        ["live", "--finished", "--once", "-n", "1000"],
    ):
        run(words[0], store, *words[1:])
    for table in ("spans", "scores", "transitions", "flags", "latest_scores"):
        run("sql", f"SELECT * FROM {table}", store, "--json")
    ids = [row["trajectory_id"] for row in open_store(store).trajectories().rows()]
    for each in chance.sample(ids, nightly(2, 1)):
        run("show", each, store)
        for part in ("--tokens", "--transitions", "--json"):
            run("show", each, store, "--full", part)
    run("diff", *chance.sample(ids, 2), "--store", store)


def export_everything(store: Store, folder: Path) -> None:
    chosen = select(store)
    for name, form in EXPORTS.items():
        if form.is_folder:
            assert form.write_folder(select(store), folder / name).written == len(chosen.rows)
        elif name != "html":
            assert not any("cannot" in reason for reason in form.write(select(store), io.StringIO()).skipped)
    few = [row["trajectory_id"] for row in chosen.rows[:: max(1, len(chosen.rows) // 6)]][: nightly(8, 3)]
    for ids in (few, few[:1]):
        done = EXPORTS["html"].write(select(store, trajectory_ids=ids), io.StringIO())
        assert (done.written, dict(done.skipped)) == (len(ids), {})


def send_everything(store: Store) -> None:
    outbox, backend = Outbox(store.path, "everything"), Everything()
    with outbox.sending():
        sender = Sender(store, outbox, backend)
        sender.send(asked_for(store, outbox))
    finished = [row["trajectory_id"] for row in store.trajectories().rows() if row["status"] != "running"]
    assert (sender.refused, backend.taken) == (0, Counter(finished))


def convert_everything(store: Store) -> None:
    from rolltrace.backends.otlp.spans import root_and_scores, spans_of
    from rolltrace.backends.otlp.wire import span_bytes
    from rolltrace.backends.weave.calls import calls_of, scores_of

    listed = store.trajectories().rows()
    for step in {row["step"] for row in listed}:
        for whole in read_whole(store, [row for row in listed if row["step"] == step], step):
            each: Trajectory = whole.trajectory
            for span in (*spans_of(each, longest=1000, mlflow=False), *root_and_scores(each, longest=99, mlflow=True)):
                span_bytes(span)
            json.dumps([call.fields for call in calls_of(each)])
            json.dumps([score.output for score in scores_of(each)])


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.usefixtures("lenient")
def test_records_with_anything_in_them_cost_only_themselves(seed: int, originals: list[bytes], tmp_path: Path) -> None:
    chance = random.Random(seed)
    controls = trace(tmp_path / "controls", CONTROLS)
    names = [chance.randbytes(16) for _ in range(40)]
    own = next(unpack(body)[1] for body in originals if unpack(body)[0] == "op_end")
    mutants = [mutated(chance.choice(originals).replace(own, chance.choice(names)), chance) for _ in range(MUTANTS)]
    header: dict[str, Any] = strange_header(chance) if seed % 2 else {}
    mixed = [*controls, *mutants]
    order = sorted(chance.sample(range(len(mixed)), len(controls)))  # the controls in their order, anywhere
    for at, body in zip(order, controls):
        mutants.insert(at, body)
    store = tmp_path / "store"
    write_segment(store, mutants, **header)

    shutil.copytree(store, tmp_path / "piecemeal")
    for words in (["ls"], ["live"], ["doctor"], ["store", "journal", "dump"], ["store", "journal", "status"]):
        run(*words, store)
    drain(store)
    drain_piecemeal(tmp_path / "piecemeal")
    drained = {table: rows(store, table) for table in TABLES}
    for table in TABLES:
        # Where a row belongs that contradicts its trajectory depends on what its drainer knows.
        assert len(rows(tmp_path / "piecemeal", table)) == len(drained[table]), table

    drain(tmp_path / "controls")
    place = ("project", "experiment", "worker", "run", "run_ns")
    known = {row["trajectory_id"] for row in rows(tmp_path / "controls", "trajectories")}
    for table in TABLES[: 5 if header else 6]:
        ours = [row for row in drained[table] if row["trajectory_id"] in known]
        assert in_order(ours, place) == in_order(rows(tmp_path / "controls", table), place), table

    told = [unpack_tag(body) for body in mutants]
    made = sum(len(drained[table]) for table in ("trajectories", "spans", "transitions", "scores", "notes"))
    unreadable = sum(row["count"] for row in drained["losses"] if row["reason"] == "unreadable")
    assert made + unreadable >= sum(tag in ("op_end", "trajectory_end") for tag in told)
    assert len(list((store / "unreadable").iterdir())) <= unreadable

    ask_everything(store, chance)
    opened = open_store(store)
    export_everything(opened, tmp_path)
    send_everything(opened)
    convert_everything(opened)


def unpack_tag(body: bytes) -> Any:
    from rolltrace.record.partial import read_partly

    return read_partly(body).tag
