"""One batch of rollouts, from the rows of the dataset to their advantages: each row becomes a trajectory.

TRL generates and scores a whole batch at once. A turn of all rows is one call of TRL's and one op of each row; what a
row said in it is known a little later, when TRL has parsed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import rolltrace
from rolltrace.capture import BatchRow, Span
from rolltrace.integrations.trl.coordinates import BatchPosition, coordinates_of

_NOT_COLUMNS = frozenset({"prompt", "completion", "completion_ids"})
"""What TRL does not pass on to reward functions as a column."""


class TrlPolicy:
    """Whose ops the turns are: tokens are decoded with its tokenizer."""

    def __init__(self, processing_class: Any) -> None:
        self.tokenizer = getattr(processing_class, "tokenizer", processing_class)  # that of a processor of images


class EndedTurn(NamedTuple):
    """A turn of one row that is over, before it is known as a message."""

    span: Span
    at: int
    """Where it stands in these lists, in which TRL itself cuts what is too long."""
    ids: list[list[int]]
    logprobs: list[Any] | None
    masks: list[Any] | None
    generated: int
    """How many tokens there were before any were cut off."""
    more: dict[str, Any]


class Generation:
    """The rollouts of one batch of this process."""

    def __init__(self, trainer: Any, inputs: Sequence[Mapping[str, Any]]) -> None:
        self._trainer = trainer
        self.validate = not trainer.model.training
        self._updates = int(trainer.state.global_step)
        step = self._updates if self.validate else self._updates + 1  # as TRL's log counts, which is written afterwards
        size = getattr(trainer, "num_generations_eval", 0) if self.validate else 0
        position = BatchPosition(step, self.validate, _rank(trainer), size or trainer.num_generations)
        self._first = position.rank * len(inputs)
        tags: dict[str, Any] = {"rank": position.rank} if trainer.accelerator.num_processes > 1 else {}
        self.rows = [
            BatchRow(rolltrace.rollout_trace_attr(sample, step, number, "rollout", self.validate, **tags))
            for sample, number in coordinates_of(inputs, position)
        ]
        self._policy = TrlPolicy(trainer.processing_class)
        self._prompts: Sequence[Any] = [row.get("prompt") for row in inputs]
        self._completions: Sequence[Any] | None = None
        """What TRL has of each row's completion, growing while tools are called."""
        self._turns: dict[int, EndedTurn] = {}
        """Turns that are over and not yet known as messages, by row."""
        self._called: dict[int, list[Any]] = {}
        """The results of the tools that were called after the last turn, by row."""
        self._ran: dict[int, Counter[str]] = {}
        """The names of the tools that really ran for these."""

    def prompted(self, prompts: Sequence[Any]) -> None:
        """These are the prompts, now that environments were reset."""
        self._prompts = prompts

    def begin_turn(self, prompt_ids: Sequence[Any]) -> list[tuple[int, Span]]:
        """All rows, or those with results of tools, are about to be continued."""
        self.settle()
        rows: Iterable[int] = range(len(self.rows))
        if self._completions is not None:
            rows = self._continued()
        begun = []
        for row, ids in zip(rows, prompt_ids):
            begun.append((row, self._begin(row, "generate", {**self._conversation(row), "prompt_ids": ids})))
        return begun

    def end_turn(self, begun: Sequence[tuple[int, Span]], result: Any) -> None:
        for _, span in begun:
            span.stop()
        ids, logprobs = result if isinstance(result, tuple) else (result, None)  # RLOO has no logprobs
        for at, (row, span) in enumerate(begun):
            self._turns[row] = EndedTurn(span, at, ids, logprobs, None, len(ids[at]), {})

    def begin_rollouts(self, prompts: Sequence[Any]) -> list[tuple[int, Span]]:
        """A rollout function of the user's is about to do all of it."""
        self._prompts = prompts
        return [(row, self._begin(row, "rollout_func", self._conversation(row))) for row in range(len(prompts))]

    def end_rollouts(self, begun: Sequence[tuple[int, Span]], output: Mapping[str, Any]) -> None:
        for _, span in begun:
            span.stop()
        ids, prompt_ids = output["completion_ids"], output["prompt_ids"]
        for row, span in begun:
            more = {"prompt_ids": prompt_ids[row]}
            self._turns[row] = EndedTurn(
                span, row, ids, output["logprobs"], output.get("env_mask"), len(ids[row]), more
            )

    def begin_tools(self, completions: Sequence[Any]) -> None:
        self._completions = completions
        self.settle()

    def tool_called(self, row: int, name: str) -> None:
        self.settle()
        self._ran.setdefault(row, Counter())[name] += 1

    def tools_answered(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """TRL has written down the results of a row's tools. Those that never ran are recorded as what they are."""
        self.settle()
        row = next(at for at in range(len(self._completions or ())) if self._has(at, messages))
        self._called[row] = list(messages)
        ran = self._ran.pop(row, Counter())
        for message in messages:
            name = str(message.get("name"))
            if ran[name]:
                ran[name] -= 1
            else:
                span = self.rows[row].begin(name, "tool", {"tool_calls": self._calls(row, name)})
                span.failed(ToolNotRun(str(message.get("content"))))

    def end_tools(self) -> None:
        self._drop_unused()
        self.settle()
        self._completions = None

    def settle(self, completions: Sequence[Any] | None = None) -> None:
        """Record the turns that are over: by now TRL knows what was said in them."""
        if completions is None:
            completions = self._completions
        if completions is None:
            return
        turns, self._turns = self._turns, {}
        for row, turn in turns.items():
            turn.span.returned(self._outputs(turn, completions[row]))

    def begin_rewards(self, inputs: Sequence[Mapping[str, Any]], completions: Sequence[Any]) -> list[Span]:
        self.settle(completions)
        names = [name for name in inputs[0] if name not in _NOT_COLUMNS]
        return [
            row.begin("rewards", "reward", {name: columns.get(name) for name in names})
            for row, columns in zip(self.rows, inputs)
        ]

    def end_rewards(self, spans: Sequence[Span], gathered: Any) -> None:
        """The rewards of all ranks, one column per function."""
        for span in spans:
            span.stop()
        own = gathered[self._first : self._first + len(self.rows)]
        weighted = own * self._trainer.reward_weights.to(own.device).unsqueeze(0)
        names = unique_names(self._trainer.reward_func_names)
        extra = getattr(self._trainer, "_pending_extra_logs", {})
        for at, (row, span, values, total) in enumerate(
            zip(self.rows, spans, own.tolist(), weighted.nansum(dim=1).tolist())
        ):
            terms = dict(zip(names, values))
            logged = {name: column[at] for name, column in extra.items() if len(column) == len(self.rows)}
            span.returned({"rewards": terms, **({"log_extra": logged} if logged else {})})
            if all(value != value for value in values):
                total = float("nan")  # no function had anything to say of it
            row.handle.reward(total, terms=terms)

    def finish(self, output: Mapping[str, Any]) -> None:
        """All is known but what becomes of the rollouts."""
        for row, advantage in zip(self.rows, _advantages(output)):
            rolltrace.score(row.handle, "advantage", advantage)
            row.close()

    def fail(self, failure: BaseException) -> None:
        for turn in self._turns.values():
            turn.span.failed(failure)
        for row in self.rows:
            row.close(failure)

    def _begin(self, row: int, name: str, inputs: Any) -> Span:
        return self.rows[row].begin(name, "llm", inputs, self._policy)

    def _conversation(self, row: int) -> dict[str, Any]:
        prompt = self._prompts[row]
        if isinstance(prompt, str):
            return {"prompt": prompt}
        completion = self._completions[row] if self._completions is not None else []
        return {"messages": [*prompt, *completion]}

    def _continued(self) -> list[int]:
        """The rows whose tool results TRL has kept: it goes on with these, in this order."""
        continued = [row for row, messages in self._called.items() if self._has(row, messages)]
        for row in continued:
            del self._called[row]
        self._drop_unused()
        return continued

    def _has(self, row: int, messages: Sequence[Any]) -> bool:
        completion = self._completions[row] if self._completions is not None else []
        return bool(completion) and completion[-1] is messages[-1]

    def _drop_unused(self) -> None:
        dropped, self._called = self._called, {}
        for row, messages in dropped.items():
            if self._has(row, messages):
                continue
            handle = self.rows[row].handle
            handle.note("TRL dropped these tool results: there was no room left for them", results=messages)
            handle.tag(dropped_tool_results=len(messages))

    def _calls(self, row: int, name: str) -> list[Any]:
        """The calls of a tool that the model asked for in its last turn."""
        completion = self._completions[row] if self._completions is not None else []
        last_turn: Mapping[str, Any] = next((each for each in reversed(completion) if each.get("role") != "tool"), {})
        calls = last_turn.get("tool_calls") or []
        return [each for each in calls if _name_of(each) == name]

    def _outputs(self, turn: EndedTurn, completion: Any) -> dict[str, Any]:
        ids = turn.ids[turn.at]
        outputs: dict[str, Any] = {
            **turn.more,
            "response_ids": ids,
            "response_mask": [1] * len(ids) if turn.masks is None else turn.masks[turn.at],
            "finish_reason": "stop" if ids and ids[-1] in self._end_ids() else "length",
            "policy_version": self._updates,
        }
        if turn.logprobs is not None:
            outputs["logprobs"] = turn.logprobs[turn.at]
        if turn.generated > len(ids):
            outputs["tokens_cut_off"] = turn.generated - len(ids)
        if isinstance(completion, str):
            outputs["text"] = completion
        elif completion and completion[-1].get("role") != "tool":  # nothing of its last turn may be left
            outputs["message"] = completion[-1]
        return outputs

    def _end_ids(self) -> set[int]:
        tokenizer = self._policy.tokenizer
        ids = getattr(self._trainer, "eos_token_ids", None) or [getattr(self._trainer, "eos_token_id", None)]
        return {*ids, tokenizer.eos_token_id, tokenizer.pad_token_id}


class ToolNotRun(Exception):
    """A call of a tool that TRL answered itself: there is no such tool, or its arguments were none."""


def unique_names(names: Sequence[str]) -> list[str]:
    """The names of reward functions; two of one name are told apart by their places."""
    counts = Counter(names)
    return [name if counts[name] == 1 else f"{name}_{at}" for at, name in enumerate(names)]


def _rank(trainer: Any) -> int:
    return int(trainer.accelerator.process_index)


def _name_of(call: Any) -> str:
    function = call.get("function") if isinstance(call, Mapping) else None
    return str(function.get("name") if isinstance(function, Mapping) else call.get("name", "unknown"))


def _advantages(output: Mapping[str, Any]) -> list[float]:
    """One number per row; of trainers that have one per token, their mean over those that are trained on."""
    advantages = output["advantages"]
    if advantages.dim() > 1:
        mask = output["completion_mask"]
        if output.get("tool_mask") is not None:
            mask = mask * output["tool_mask"]
        advantages = (advantages * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
    return [float(each) for each in advantages.tolist()]
