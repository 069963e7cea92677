"""Payloads of ops as Hypothesis makes them: numbers in bulk, secrets, odd text, and names that mean something."""

from __future__ import annotations

from hypothesis import strategies as st

SECRET = "sk-proj-a8Jd72Kq0ZxP4mN6vB1cT5yR9wL3"

numbers = st.one_of(
    st.lists(st.integers(0, 200_000), min_size=120, max_size=400),
    st.lists(st.floats(allow_nan=True), min_size=60, max_size=200),
    st.lists(st.integers(0, 1), min_size=600, max_size=700),
    st.lists(st.one_of(st.integers(-(2**40), 2**40), st.none(), st.booleans()), min_size=100, max_size=300),
)
names = st.sampled_from(
    ["query", "text", "rank", "token_ids", "prompt_ids", "response_ids", "logprobs", "response_mask", "finish_reason",
     "usage", "image", "password", "isError", "messages", "name", "value", "items", "choices", "policy_version", "漢字"]
)  # fmt: skip
leaves = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [SECRET, f"my key is {SECRET}", "data:image/png;base64,xx", "length", "\ud800", "tool", "hunter2!"]
    ),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
    st.none(),
    st.binary(max_size=5),
    numbers,
)
payloads = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(names, st.integers()), inner, max_size=5)
    ),
    max_leaves=12,
)
