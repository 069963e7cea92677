"""Where a proxied call belongs: in its path, in a header, or in its key."""

from __future__ import annotations

import pytest

import rolltrace
from rolltrace.proxy.address import address_of, packed, proxied_env
from rolltrace.testing import Recording

CONTEXT = f"00-{'a' * 32}-{'0' * 16}-01;" + '{"step":3,"sample_index":"数"}'
WORD = packed(CONTEXT)


@pytest.mark.parametrize(
    ("path", "headers", "found"),
    [
        (f"/t/{WORD}/v1/messages", {}, ("/v1/messages", CONTEXT, "", False, 2)),
        (f"/k/secret/t/{WORD}/v1/messages", {}, ("/v1/messages", CONTEXT, "secret", False, 4)),
        (f"/t/{WORD}", {}, ("/", CONTEXT, "", False, 2)),
        ("/v1/messages", {"x-rolltrace-context": WORD}, ("/v1/messages", CONTEXT, "", False, 0)),
        ("/v1/messages", {"x-api-key": f"rt-{WORD}"}, ("/v1/messages", CONTEXT, "", True, 0)),
        ("/v1/responses", {"authorization": f"Bearer rt-{WORD}"}, ("/v1/responses", CONTEXT, "", True, 0)),
        ("/v1/messages", {"x-api-key": "rt-somebody-elses-key"}, ("/v1/messages", "", "", False, 0)),
        ("/t/nothing-of-ours/v1/messages", {"x-rolltrace-token": "s"}, ("/v1/messages", "", "s", False, 2)),
    ],
)
def test_an_address_is_read(path: str, headers: dict[str, str], found: tuple[object, ...]) -> None:
    assert tuple(address_of(path, headers)) == found


def test_the_environment_of_an_agent_names_its_trajectory_and_no_settings(traced: Recording) -> None:
    with rolltrace.rollout_trace_attr(step=3, sample_index="数") as trajectory:
        variables = proxied_env(proxy="http://127.0.0.1:7656/")
        assert proxied_env(trajectory, proxy="http://127.0.0.1:7656") == variables
    base = variables["ANTHROPIC_BASE_URL"]
    assert variables["OPENAI_BASE_URL"] == variables["OPENAI_API_BASE"] == f"{base}/v1"
    context = address_of(base.removeprefix("http://127.0.0.1:7656"), {}).context
    assert context.startswith(f"00-{trajectory.id}-")
    assert "settings" not in context


def test_without_a_trajectory_the_proxy_is_named_alone() -> None:
    assert proxied_env(proxy="http://h:1")["ANTHROPIC_BASE_URL"] == "http://h:1"


@pytest.mark.parametrize("given", [None, "", "127.0.0.1:7656"])
def test_an_address_that_is_none_is_told(given: str | None) -> None:
    with pytest.raises(rolltrace.RolltraceError, match="where is the proxy"):
        proxied_env(proxy=given)
