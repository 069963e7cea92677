"""Secrets are taken out by key and by shape; everything else stays as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rolltrace.drain import Redactor
from rolltrace.errors import ConfigError
from rolltrace.record import Cut, Opaque

SECRETS = {
    "openai key": "sk-proj-" + "aB3" * 10,
    "github token": "ghp_" + "a1B2" * 9,
    "huggingface token": "hf_" + "aB" * 17,
    "aws key": "AKIA" + "ABCD1234" * 2,
    "google key": "AIza" + "a" * 35,
    "slack token": "xoxb-123456789012-abcdef",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.abcdefghijklmnop",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----",
    "bearer token": "Bearer " + "abc123" * 5,
    "url password": "admin:hunter2",
}


@pytest.mark.parametrize(("rule", "secret"), SECRETS.items())
def test_a_secret_inside_text_is_taken_out(rule: str, secret: str) -> None:
    text = f"see https://{secret}@host now" if rule == "url password" else f"before {secret} after"
    found = Redactor().value({"messages": [{"content": text}]})["messages"][0]["content"]
    assert secret not in found
    assert f"[redacted: {rule}]" in found
    assert found.startswith(text[:4])


@pytest.mark.parametrize("key", ["api_key", "API-KEY", "Authorization", "password", "x-api-key", "client_secret"])
def test_the_value_of_a_secret_key_is_never_kept(key: str) -> None:
    redactor = Redactor()
    assert redactor.value({"headers": {key: "anything", "n": 1}}) == {"headers": {key: f"[redacted: {key}]", "n": 1}}
    assert redactor.count == 1


@pytest.mark.parametrize(
    "value",
    [
        "task-oriented ask-me risk-free sk-short", "ghost", "eyJust", "https://example.org/a@b", "the bearer of news",
        [1, 2, 3], [0.5, -1.0], {"tokens": [1, 2]}, {"password": None}, {"secret": 0}, 5, None, True, b"sk-bytes",
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_secret_stays(value: Any) -> None:
    assert Redactor().value(value) == value


def test_secrets_inside_markers_are_taken_out() -> None:
    secret = SECRETS["aws key"]
    assert secret not in str(Redactor().value([Cut("bytes", 9, f"x {secret} y"), Opaque("T", {"a": f"{secret} "})]))


def test_the_rules_can_be_set() -> None:
    redactor = Redactor(keys=["badge"], shapes={"badge number": (("B-",), r"B-\d{4}")})
    assert redactor.value({"badge": "x", "text": "B-1234", "password": "kept"}) == {
        "badge": "[redacted: badge]",
        "text": "[redacted: badge number]",
        "password": "kept",
    }


def test_a_store_can_have_rules_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "redact.json").write_text('{"keys": ["badge"], "shapes": {"badge number": "B-[0-9]{4}"}}')
    found = Redactor.of(tmp_path).value({"badge": "x", "password": "y", "text": "B-1234", "n": [1]})
    assert found == {
        "badge": "[redacted: badge]",
        "password": "[redacted: password]",
        "text": "[redacted: badge number]",
        "n": [1],
    }


def test_the_rules_of_a_store_can_replace_the_usual_ones(tmp_path: Path) -> None:
    (tmp_path / "redact.json").write_text('{"keys": ["badge"], "replace": true}')
    assert Redactor.of(tmp_path).value({"password": "kept", "badge": "x"})["password"] == "kept"


@pytest.mark.parametrize("text", ["nonsense", '{"shapes": {"a": "("}}', '{"kyes": []}'])
def test_rules_that_cannot_be_used_are_a_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "redact.json").write_text(text)
    with pytest.raises(ConfigError, match=r"redact\.json cannot be used"):
        Redactor.of(tmp_path)
