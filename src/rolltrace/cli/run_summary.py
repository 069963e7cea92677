"""What `rolltrace run` says when the program has ended: what was recorded, and if it is nothing, why.

`_site/sitecustomize.py` starts this as a process of its own at the exit of the program's first process, and gives it
which libraries that imported: python -m rolltrace.cli.run_summary JSON
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path

import msgspec

from rolltrace._amounts import counted
from rolltrace.errors import RolltraceError

SUPPORTED = {
    "openai": "openai",
    "anthropic": "anthropic",
    "litellm": "litellm",
    "langchain_core": "langchain",
    "agents": "openai-agents",
    "verl": "verl",
    "tinker_cookbook": "tinker-cookbook",
    "trl": "trl",
    "prime_rl": "prime-rl",
}
"""Modules whose model calls are recorded, and what people call them."""
UNSUPPORTED = {
    "google.genai": "google-genai",
    "google.generativeai": "google-generativeai",
    "vertexai": "vertexai",
    "mistralai": "mistralai",
    "cohere": "cohere",
    "groq": "groq",
    "ollama": "ollama",
    "together": "together",
    "huggingface_hub.inference._client": "huggingface_hub.InferenceClient",
    "trl.experimental.async_grpo": "TRL's AsyncGRPOTrainer",
}
"""Modules that call models and are not recorded."""
_BY_OTHERS = {"dspy": "dspy"}
"""Modules that call models through libraries that may be recorded."""
_HTTP = ("httpx", "requests", "aiohttp")
MODULES = (*SUPPORTED, *UNSUPPORTED, *_BY_OTHERS, *_HTTP)
_MANY = 3


class Ended(msgspec.Struct):
    """A program that has ended."""

    store: str
    since_ns: int
    """When it was started."""
    modules: list[str]
    """Those of `MODULES` that it imported."""
    run: str | None = None


class Recorded(msgspec.Struct):
    """What is in the store of it."""

    trajectories: int = 0
    model_calls: int = 0


def main() -> None:
    ended = msgspec.json.decode(sys.argv[1], type=Ended)
    try:
        recorded = _recorded(ended)
    except RolltraceError as error:
        print(f"rolltrace: what was recorded cannot be read: {error}", file=sys.stderr)
        return
    print(f"rolltrace: {summary(recorded, ended.modules, ended.store)}", file=sys.stderr)


def summary(recorded: Recorded, modules: Collection[str], store: str) -> str:
    """One line."""
    calls = counted(recorded.model_calls, "model call")
    not_recorded = UNSUPPORTED if recorded.model_calls else {**UNSUPPORTED, **_BY_OTHERS}
    unsupported = [name for module, name in not_recorded.items() if module in modules]
    parts = [f"{counted(recorded.trajectories, 'trajectory')}, {calls} recorded in {store}"]
    if not recorded.model_calls:
        if not recorded.trajectories:
            parts = [f"{calls} recorded"]
        supported = [name for module, name in SUPPORTED.items() if module in modules]
        if supported:
            parts.append(f"{_listed(supported)} made none")
        elif not recorded.trajectories:
            parts.append(f"{', '.join(list(SUPPORTED.values())[:_MANY])} and the like were not imported")
    advice = "use rolltrace proxy, or trace the calls yourself: rolltrace docs proxy"
    if unsupported:
        parts.append(f"{_listed(unsupported)} {'is' if len(unsupported) == 1 else 'are'} not supported; {advice}")
    elif not recorded.model_calls and not recorded.trajectories:
        http = [name for name in _HTTP if name in modules]
        if http:
            parts.append(f"requests by {_listed(http)} are not recorded; {advice}")
    return "; ".join(parts)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def _recorded(ended: Ended) -> Recorded:
    from rolltrace.files import is_store

    if not Path(ended.store).is_dir() or not is_store(Path(ended.store)):
        return Recorded()
    from rolltrace.query import open_store

    store = open_store(ended.store)
    store.refresh()
    question = (
        "SELECT count(DISTINCT trajectory_id) AS trajectories, count(*) FILTER (kind IN ('llm', 'aux_llm')) AS calls "
        "FROM spans WHERE start_ns >= ?"
    )
    (row,) = store.sql(f"{question} AND run = ?", [ended.since_ns, ended.run]).rows()
    if not row["trajectories"]:  # its processes made runs of their own
        (row,) = store.sql(question, [ended.since_ns]).rows()
    return Recorded(row["trajectories"], row["calls"])


if __name__ == "__main__":
    main()
