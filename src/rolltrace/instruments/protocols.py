"""Which requests are model calls: the paths of OpenAI's, Anthropic's, Gemini's and SGLang's protocols."""

from __future__ import annotations

from typing import Any

GEMINI = "gemini.generate_content"
_NAMES = {
    "/chat/completions": "openai.chat.completions",
    "/completions": "openai.completions",
    "/responses": "openai.responses",
    "/messages": "anthropic.messages",
    "/generate": "sglang.generate",
    ":generateContent": GEMINI,
    ":streamGenerateContent": GEMINI,
}
_NO_MODEL_CALLS = (
    "/count_tokens", "/input_tokens", ":countTokens", ":computeTokens", "/embeddings", ":embedContent",
    ":batchEmbedContents", "/tokenize", "/detokenize", "/moderations", "/rerank", "/score", "/files", "/cancel",
    ":cachedContents", "/cachedContents",
)  # fmt: skip
"""How paths end that agents ask beside models."""

_PLAIN = (str, int, float, list, dict)
_PRIVATE = frozenset({"api_key", "extra_headers", "headers", "default_headers", "api_base", "base_url", "client"})
"""Parameters of frameworks that may hold a key, or are no part of a request."""


def call_name(method: str, path: str) -> str | None:
    """What to call the op of a request; None if no model is asked."""
    if method.upper() != "POST":
        return None
    path = "/" + path.partition("?")[0].strip("/")
    return next((name for end, name in _NAMES.items() if path.endswith(end)), None)


def may_be_call(method: str, path: str) -> bool:
    """Whether a request that has no name may ask a model all the same, in a protocol that is not known here."""
    return method.upper() == "POST" and not path.partition("?")[0].rstrip("/").endswith(_NO_MODEL_CALLS)


def with_model(name: str, path: str, inputs: Any) -> Any:
    """What a model is given, with its name if that stands in the path."""
    if name != GEMINI or not isinstance(inputs, dict):
        return inputs
    return {"model": path.rpartition("/")[2].partition(":")[0], **inputs}


def public_parameters(parameters: Any) -> dict[str, Any]:
    """What a framework was given for a call beside the messages, without what is not to be recorded."""
    if not isinstance(parameters, dict):
        return {}
    return {name: value for name, value in parameters.items() if name not in _PRIVATE and isinstance(value, _PLAIN)}
