"""Where a call belongs, as an agent carries it through: in the path of its base URL, in a header, or in its API key.

    /k/TOKEN/t/CONTEXT/v1/messages      both parts are taken off before the rest goes on
    x-rolltrace-token, x-rolltrace-context
    Authorization: Bearer rt-CONTEXT    then the key of the upstream is the proxy's own

CONTEXT is what `current_context` says of the place, in base64url, which no URL and no header changes.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from typing import NamedTuple

from rolltrace.capture import TrajectoryHandle, context_of, scope
from rolltrace.errors import ConfigError

VARIABLE = "ROLLTRACE_PROXY"
CONTEXT_HEADER, TOKEN_HEADER = "x-rolltrace-context", "x-rolltrace-token"
_KEY_PREFIX = "rt-"
MAX_CONTEXT_CHARS = 8192


def proxied_env(trajectory: TrajectoryHandle | None = None, *, proxy: str | None = None) -> dict[str, str]:
    """The variables to start an agent with, so that its model calls go through `rolltrace proxy` and are recorded here.

        with rolltrace.rollout_trace_attr(step=1, sample_index=7) as trajectory:
            subprocess.run(["claude", "-p", "..."], env={**os.environ, **rolltrace.proxied_env(trajectory)})

    They are read by the SDKs of OpenAI, Anthropic and Google and by most agents. While tracing is off they lead to the
    proxy all the same, which then makes a trajectory of its own.

    Args:
        trajectory: What the calls belong to; the current trajectory and op if not given.
        proxy: The address that `rolltrace proxy` printed; `ROLLTRACE_PROXY` if not given.

    Raises:
        ConfigError: nobody says where the proxy is.
    """
    base = (proxy or os.environ.get(VARIABLE) or "").rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise ConfigError(
            f"where is the proxy? Give proxy= or set {VARIABLE} to the address that `rolltrace proxy` printed, "
            f"such as http://127.0.0.1:7656, not {base!r}"
        )
    place: scope.Place | None = trajectory if trajectory is not None else scope.current.get()
    context = "" if place is None else context_of(place)
    if context:
        base += f"/t/{packed(context)}"
    openai = {"OPENAI_BASE_URL": f"{base}/v1", "OPENAI_API_BASE": f"{base}/v1"}
    return {"ANTHROPIC_BASE_URL": base, **openai, "GOOGLE_GEMINI_BASE_URL": base}


def packed(context: str) -> str:
    return base64.urlsafe_b64encode(context.encode()).decode().rstrip("=")


class Address(NamedTuple):
    """What a request says about itself."""

    path: str
    """As it goes on."""
    context: str
    """Empty if it says nothing."""
    token: str
    key_is_context: bool
    own_parts: int
    """How many parts of the path were ours, before the rest."""


def address_of(path: str, headers: Mapping[str, str]) -> Address:
    """Read it off the path, else off the headers (whose names are in small letters)."""
    token, context, own_parts = headers.get(TOKEN_HEADER, ""), "", 0
    if path.startswith("/k/"):
        token, _, path = path[3:].partition("/")
        path, own_parts = f"/{path}", 2
    if path.startswith("/t/"):
        word, _, path = path[3:].partition("/")
        path, context, own_parts = f"/{path}", _unpacked(word), own_parts + 2
    key = headers.get("x-api-key") or headers.get("x-goog-api-key") or ""
    key = key or headers.get("authorization", "").removeprefix("Bearer ").strip()
    key_context = _unpacked(key[len(_KEY_PREFIX) :]) if key.startswith(_KEY_PREFIX) else ""
    named = headers.get(CONTEXT_HEADER, "")
    return Address(path, context or _unpacked(named) or named or key_context, token, bool(key_context), own_parts)


def _unpacked(word: str) -> str:
    """The context, or nothing if this is none: a key may begin as ours do."""
    if not word or len(word) > MAX_CONTEXT_CHARS:
        return ""
    try:
        text = base64.b64decode(word + "=" * (-len(word) % 4), b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        return ""
    return text if text.startswith("00-") else ""
