"""Whichever way a record takes to its rows, they are the same."""

from __future__ import annotations

import math
from array import array
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolltrace.drain import Redactor, RowMaker
from rolltrace.drain.checks import Checks, Past
from rolltrace.drain.text import Memory
from rolltrace.record import Coordinates, Error, OpEnd, Record, Snapshotter, TrajectoryEnd, encode_record
from tests.drain.payloads import SECRET, leaves, names, payloads
from tests.nightly import nightly

META = {"project": "p", "experiment": "e", "writer": "w", "run": "r", "run_ns": 5}
snapshot = Snapshotter().take


@st.composite
def ops(draw: st.DrawFn) -> OpEnd:
    where = draw(
        st.one_of(
            st.builds(
                lambda step, sample: Coordinates(step, sample, 0, False),
                st.one_of(st.none(), st.integers(0, 3)),
                st.sampled_from([1, "a", SECRET, None]),
            ),
            st.sampled_from([[1 << 63], ["x"], None]),
        )
    )
    return OpEnd(
        draw(st.sampled_from([b"t" * 16, b"u" * 16, b"short"])),
        msgspec.Raw(encode_record(where)),
        draw(st.sampled_from([1, 2, 3, 1 << 63])),
        draw(st.sampled_from([0, 1])),
        draw(st.sampled_from(["search", SECRET, "漢"])),
        draw(st.sampled_from(["tool", "llm", "other"])),
        draw(st.sampled_from([0, 10, 1 << 63])),
        draw(st.sampled_from([0, 20, -1])),
        draw(st.sampled_from(["ok", "error"])),
        draw(st.sampled_from([None, Error("E", f"said {SECRET}", "at")])),
        msgspec.Raw(snapshot(draw(st.one_of(st.dictionaries(names, payloads, max_size=4), payloads)))),
        msgspec.Raw(snapshot(draw(payloads))),
        draw(st.sampled_from(["", "worker"])),
    )


def made(maker: RowMaker, records: list[Record]) -> list[Any]:
    shaped = [maker.shape(record, "w-000000-0") for record in records]
    return [(row.table.name, plain(row.fields)) for each in shaped for row in each.rows] + [
        each.is_whole for each in shaped
    ]


def plain(fields: dict[str, Any]) -> str:
    values = {
        name: value.tolist() if isinstance(value, pa.Array | array) else value for name, value in sorted(fields.items())
    }
    return repr(values)  # in which NaN is NaN


ids = st.one_of(
    st.lists(st.integers(0, 5), max_size=6),
    st.lists(st.integers(0, 5), min_size=64, max_size=80),
    st.sampled_from([[7] * 90, [1, 2, 3], [1, 2, 3, 4, 5, 6], [1, True], [1 << 40], [None], "ids", {"$column": "x"}]),
)
logprobs = st.one_of(st.lists(st.floats(-3, 0), max_size=8), st.sampled_from([[0.0] * 5, [-1], [math.nan], [1e300]]))
messages = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": leaves}),
        st.sampled_from(
            [{"role": "user", "content": "<image> what is this?"}, {"role": "user", "token_ids": [1]},
             {"role": "user", "content": [{"type": "image", "url": "x"}]}, "text"]
        ),
    ),
    max_size=3,
)  # fmt: skip


@st.composite
def calls(draw: st.DrawFn) -> OpEnd:
    """Model calls with tokens, such as most are; some of them turns of one trajectory."""
    inputs = draw(
        st.fixed_dictionaries(
            {}, optional={"messages": messages, "prompt_ids": ids, "max_tokens": st.just(3), "n": st.integers(0, 3)}
        )
    )
    outputs = draw(
        st.fixed_dictionaries(
            {"response_ids": ids},
            optional={
                "prompt_ids": ids, "logprobs": logprobs, "response_mask": st.lists(st.integers(0, 1), max_size=8),
                "finish_reason": st.sampled_from(["stop", "length", "LENGTH", None, 3, SECRET, "é"]), "role": leaves,
                "token_ids": ids, "my_mask": ids, "policy_version": st.integers(0, 2), "content": leaves, "mask": ids,
                "usage": st.just({"prompt_tokens": 3}), "param_version_start": st.just(1),
            },
        )
    )  # fmt: skip
    start = draw(st.integers(1, 9))
    return OpEnd(
        draw(st.sampled_from([b"t" * 16, b"u" * 16])),
        msgspec.Raw(encode_record(Coordinates(1, 2, 3))),
        draw(st.integers(1, 9)),
        draw(st.sampled_from([0, 1])),
        draw(st.sampled_from(["generate", "other"])),
        draw(st.sampled_from(["llm", "llm", "llm", "other", "aux_llm"])),
        start,
        start + draw(st.integers(0, 3)),
        "ok",
        None,
        msgspec.Raw(snapshot(inputs)),
        msgspec.Raw(snapshot(outputs)),
    )


ends = st.builds(
    TrajectoryEnd,
    st.sampled_from([b"t" * 16, b"u" * 16, b"short"]),
    st.sampled_from([Coordinates(1, 2, 3), Coordinates(1, SECRET), ["x"]]).map(encode_record).map(msgspec.Raw),
    st.sampled_from(["rollout", SECRET, "漢"]),
    st.sampled_from([0, 10, 1 << 63]),
    st.sampled_from([0, 20, -1]),
    st.sampled_from(["ok", "error", "cancelled"]),
    st.sampled_from([None, None, Error("E", f"said {SECRET}", "at")]),
    st.sampled_from([None, b"", b"p" * 16, b"short"]),
    st.sampled_from([0, 1, 1 << 63]),
    st.one_of(st.none(), st.dictionaries(names, leaves, max_size=2)).map(snapshot).map(msgspec.Raw),
    st.booleans(),
    st.sampled_from(["", "another run"]),
)


@settings(max_examples=nightly(1000, 50), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(calls(), calls(), ops(), ends), min_size=1, max_size=5))
def test_a_record_has_the_same_rows_by_the_short_way_and_by_the_long_one(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record]
) -> None:
    store = Path(tmp_path_factory.getbasetemp())
    short, long = (
        RowMaker(META, Redactor(), Memory(store), Checks("all", Past()), shortcuts=shortcuts)
        for shortcuts in (True, False)
    )
    assert made(short, records) == made(long, records)


def test_an_op_without_anything_unusual_goes_the_short_way(tmp_path: Path) -> None:
    maker = RowMaker(META, Redactor(), Memory(tmp_path), Checks("all", Past()))
    quick = maker._quick
    assert quick is not None
    where = msgspec.Raw(encode_record(Coordinates(1, 2, 3)))

    def op(outputs: Any) -> OpEnd:
        given = msgspec.Raw(snapshot({"query": "what?"}))
        return OpEnd(
            b"t" * 16, where, 1, 0, "search", "tool", 10, 20, "ok", None, given, msgspec.Raw(snapshot(outputs))
        )

    assert quick.shape(op({"text": "that", "rank": 1})) is not None
    for outputs in ({"token_ids": [1]}, SECRET, {"image": "x"}, {"isError": True}, b"x", math.nan):
        assert quick.shape(op(outputs)) is None, outputs


def test_a_model_call_with_its_tokens_goes_the_short_way(tmp_path: Path) -> None:
    maker = RowMaker(META, Redactor(), Memory(tmp_path), Checks("all", Past()))
    quick = maker._quick
    assert quick is not None
    where = msgspec.Raw(encode_record(Coordinates(1, 2, 3)))

    def call(**outputs: Any) -> OpEnd:
        given = msgspec.Raw(snapshot({"messages": [{"role": "user", "content": "what?"}], "n": 1}))
        answer = {"content": "that", "prompt_ids": [1, 2], "response_ids": [3], **outputs}
        given_back = msgspec.Raw(snapshot(answer))
        return OpEnd(b"t" * 16, where, 1, 0, "generate", "llm", 10, 20, "ok", None, given, given_back)

    assert quick.shape(call()) is not None
    shaped = quick.shape(call(logprobs=[-0.5], finish_reason="stop"))
    assert shaped is not None
    assert shaped.outputs["logprobs"] == {"$column": "logprobs"}
    odd: tuple[dict[str, Any], ...] = (
        {"finish_reason": "length"}, {"logprobs": [-0.5, -0.5]}, {"token_ids": [3]}, {"response_ids": [1 << 31]},
        {"response_ids": []}, {"prompt_ids": [True]}, {"content": SECRET}, {"usage": {}}, {"new_logprobs": [-0.5]},
        {"policy_version": 3}, {"response_ids": [7] * 90}, {"content": "<image>"},
    )  # fmt: skip
    for outputs in odd:
        assert quick.shape(call(**outputs)) is None, outputs
