"""Every flag once: what it means, when it is not set, what its detail holds.

The checks that set them are in `drain/checks`, one per file. The setting `checks`, the page docs/reference/flags.md and
`rolltrace docs flags` are derived from here. No column library is needed for that: a rollout's process loads this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rolltrace.errors import ConfigError

PLUGIN_GROUP = "rolltrace.checks"
"""The entry points of other people's checks."""
ALL, OFF = "all", "off"


class Flag(NamedTuple):
    """A problem that rolltrace finds by itself."""

    name: str
    meaning: str
    not_set: str
    """Where one might expect it."""
    detail: Mapping[str, str]
    """What its detail holds: field -> meaning."""


FLAGS = (
    Flag(
        "prefix_break",
        "a turn whose prompt does not extend the previous prompt and response: the mark of re-tokenisation",
        "for a call with the same prompt again (another sample of the same turn), for calls that overlap in time, "
        "between ops of different names or processes, without the token ids of both prompt and response",
        {
            "previous_op_id": "the turn before",
            "previous_tokens": "how many tokens its prompt and response have",
            "prompt_tokens": "how many tokens the prompt of this turn has",
            "first_difference": "the index of the first token that differs; found when a trajectory is read",
        },
    ),
    Flag(
        "length_mismatch",
        "response tokens, logprobs and mask of one op are not equally many",
        "when only one of the three was recorded",
        {
            "response_tokens": "how many response tokens; left out if there are none, as the others",
            "logprobs": "how many logprobs",
            "response_mask": "how many values the mask has",
        },
    ),
    Flag(
        "zero_logprobs",
        "every logprob of a response is zero",
        "for responses of fewer than 4 tokens, which a model may well be certain of",
        {"logprobs": "how many there are"},
    ),
    Flag(
        "empty_response",
        "a model call came back with no tokens, or with no text",
        "when it failed or was aborted, or answered with tool calls or reasoning only",
        {"finish_reason": "why the model stopped, if it was said"},
    ),
    Flag(
        "unread_reply",
        "a model call came back with something from which neither text nor tokens could be read: its answer is missing "
        "from the conversation and from exports",
        "when it failed, for ops that are not of the kind `llm`, for several answers to one prompt",
        {
            "returned": "its type; `stream` for a generator, `nothing` for None or `outputs=False`",
            "fields": "the names of its fields, at most 16 of them",
            "items": "how many items the generator gave",
            "kept_items": "how many of them were recorded; half a reply is not taken for one",
        },
    ),
    Flag(
        "unread_tokens",
        "a model call has a list that looks like token ids, logprobs or a mask, under a name that is not read; "
        "`rolltrace docs names` lists those that are",
        "when the column was read from another name, for logprobs and masks of the prompt, of another model or of the "
        "trainer, for lists of lists",
        {
            "field": "the name that was not read",
            "column": "what it looks like: `prompt_ids`, `response_ids`, `logprobs` or `response_mask`",
            "items": "how many numbers it has",
        },
    ),
    Flag(
        "cut_by_length",
        "a response ended because it reached its greatest length",
        "when neither a finish reason says so nor the response has as many tokens as `max_tokens` allows",
        {
            "finish_reason": "what the model server said, if it did",
            "response_tokens": "how many tokens the response has, if they were recorded",
            "max_tokens": "how many it was allowed, when that is how it was seen",
        },
    ),
    Flag(
        "repetition",
        "a response repeats the same passage over and over, up to its end or in half of it or more",
        "below 64 tokens (200 characters without token ids), below 5 repeats (3 from 256 tokens or 800 characters on), "
        "for passages that are only alike, for responses that hold what tools said",
        {
            "unit": "`token` or `character`",
            "start": "where in the response it begins",
            "length": "how long all of it is",
            "period": "how long the repeated passage is",
        },
    ),
    Flag(
        "tool_error",
        "a tool op raised, or its result says `isError` or `is_error`",
        "for results that only read like an error",
        {"error": "type and message of what was raised; left out if it came as a result"},
    ),
    Flag(
        "mixed_policy",
        "several policy versions produced the tokens of one trajectory",
        "when they ran in different processes: compare `policy_version_min` with `policy_version_max` then",
        {"policy_version": "the version of this op", "previous": "the version before"},
    ),
    Flag(
        "image_missing",
        "a prompt has image tokens, and no image was given to its op or to an op before or around it",
        "when the prompt is known by its token ids only: they tell it when token2text is on",
        {"placeholder": "what stands in the prompt"},
    ),
    Flag(
        "no_text",
        "token2text is on, and an op has token ids but no text",
        "when the op's own process decodes them, because its tokenizer has no tokenizer.json: the text comes later",
        {"reason": "no tokenizer was found, or the one it has is not in the store"},
    ),
    Flag(
        "number_as_text",
        "a transition has a number that was made text before it was recorded: it can be neither compared nor plotted",
        "for digits alone (`'42'`), which are as often an id or an answer; outside reward, reward_data and metrics",
        {"reward_data.NAME": "the text, by the place where it stands; at most 8 of them"},
    ),
    Flag(
        "interrupted",
        "its process died before the op or the trajectory ended",
        "while the process is there",
        {},
    ),
)
"""Those that can be switched on and off."""

CHECK_FAILED = Flag(
    "check_failed",
    "a check, built in or a plug-in, raised an exception; the other checks were run",
    "for a plug-in that cannot be loaded: `rolltrace doctor` shows that",
    {"check": "which check", "error": "type and message of the exception"},
)
UNREADABLE = Flag(
    "unreadable",
    "a record, or some of it, could not be made a row: what is known of it is shown, the rest was kept aside",
    "for bytes that are damaged: those are counted as `losses` with the reason `damaged`",
    {
        "error": "the type of the exception; left out if only some columns are concerned",
        "columns": "the columns whose value does not fit",
        "file": "the record, in the folder `unreadable` of the store: NAME.msgpack, if there was room",
    },
)
ALWAYS_ON = (CHECK_FAILED, UNREADABLE)
"""Those that cannot be switched off."""


def is_on(selection: str, name: str) -> bool:
    """Whether a check is chosen by a value of the setting `checks`."""
    if selection in (ALL, OFF):
        return selection == ALL
    words = selection.split(",")
    return f"-{name}" not in words if words[0].startswith("-") else name in words


def check_selection(label: str, value: Any) -> str:
    """The setting `checks`, checked: `all`, `off`, names to keep, or names to drop, each with a leading `-`."""
    words = _words(label, value)
    switch = words[0].lower() if len(words) == 1 else "" if words else OFF
    if switch in (ALL, "on", "true"):
        return ALL
    if switch in (OFF, "false"):
        return OFF
    dropped = [word for word in words if word.startswith("-")]
    if dropped and len(dropped) < len(words):
        raise ConfigError(f"{label} mixes names to keep and names to drop ({value!r}); give one or the other")
    _refuse_unknown(label, [word.removeprefix("-") for word in words])
    return ",".join(dict.fromkeys(words))


def _words(label: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [ALL if value else OFF]
    words = value.split(",") if isinstance(value, str) else value
    if isinstance(words, Iterable) and not isinstance(words, Mapping | bytes):
        names = list(words)
        if all(isinstance(word, str) and word.strip(" -") for word in names):
            return [word.strip() for word in names]
    raise ConfigError(
        f"{label} must be 'all', 'off', names of checks to keep or, each with a leading '-', to drop; not {value!r}"
    )


def _refuse_unknown(label: str, names: list[str]) -> None:
    check_names = [flag.name for flag in FLAGS]
    unknown = [name for name in names if name not in check_names]
    if not unknown:
        return
    import difflib  # needed only for a mistake, or for other people's checks
    from importlib.metadata import entry_points

    check_names += sorted(point.name for point in entry_points(group=PLUGIN_GROUP))
    for name in unknown:
        if name not in check_names:
            near = difflib.get_close_matches(name, check_names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(check_names)}"
            raise ConfigError(f"{label} names no check {name!r}; {hint}")
