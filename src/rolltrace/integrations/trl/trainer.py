"""`attach`: record what a trainer of TRL does. The one trainer is changed, not its class, which others rebuild.

While tracing is off each of the changed methods only looks whether it is on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import TrajectoryHandle, scope
from rolltrace.errors import ConfigError
from rolltrace.integrations.trl.framework import RELEASES
from rolltrace.integrations.trl.generation import Generation
from rolltrace.integrations.trl.tools import Resets, traced_tools

T = TypeVar("T")
_MARK = "_rolltrace"
"""The attribute of a trainer that holds what is attached to it."""
ROWS = "rolltrace_rows"
"""The column of a batch that says which rollouts its rows are. TRL shuffles and splits it with the others."""
_NEEDED = (
    "_generate_and_score_completions", "_generate", "_generate_single_turn", "_calculate_rewards", "compute_loss",
)  # fmt: skip
_LEFT_OVER = "left over at the end of training"
_MASKED = "no token of it is trained on, as of completions that were cut off"
_ABSENT = object()


def attach(trainer: Any, project_name: str | None = None, experiment_name: str | None = None, **settings: Any) -> None:
    """Record every rollout of a trainer from now on. A second time changes nothing.

        trainer = GRPOTrainer(...)
        rolltrace.integrations.trl.attach(trainer)
        trainer.train()

    With names or settings, tracing is turned on as by `rolltrace.init(project_name, experiment_name, **settings)`.
    Without, it is as `rolltrace.init` or the environment say; if neither says anything it is turned on, with the
    project `trl` and the trainer's run name, or else the name of its output folder, as experiment.

    Raises:
        ConfigError: this is no trainer whose rollouts can be recorded, or a setting is wrong.
    """
    missing = missing_seams(type(trainer))
    if missing:
        raise ConfigError(
            f"attach needs a GRPOTrainer or RLOOTrainer of TRL {RELEASES.names}, not a "
            f"{type(trainer).__name__}: it has no {', '.join(missing)}; see: rolltrace doctor --trl"
        )
    if project_name is not None or experiment_name is not None or settings:
        rolltrace.init(project_name, experiment_name, **settings)
    else:
        _turn_on(trainer)
    RELEASES.warn()
    if not isinstance(vars(trainer).get(_MARK), Attached):
        setattr(trainer, _MARK, Attached(trainer))


def detach(trainer: Any) -> None:
    """Stop recording the rollouts of a trainer: it is again as it was before `attach`."""
    attached = vars(trainer).pop(_MARK, None)
    if isinstance(attached, Attached):
        attached.restore()


def missing_seams(trainer_class: type) -> list[str]:
    """The methods that a trainer must have, and this one has not."""
    return [name for name in _NEEDED if not callable(getattr(trainer_class, name, None))]


def ended(trainer: Any) -> None:
    """Training is over: what was not trained on will not be any more."""
    attached = vars(trainer).get(_MARK)
    if isinstance(attached, Attached):
        guarded(attached.discard, _LEFT_OVER)


def guarded(work: Callable[..., T], *args: Any) -> T | None:
    """Do work of ours, which must not stop a training run."""
    try:
        return work(*args)
    except Exception:
        caught("trl")
        return None


def _turn_on(trainer: Any) -> None:
    """Turn tracing on if nobody has decided whether there is any."""
    if scope.recorder is None:
        run = getattr(trainer.args, "run_name", None) or trainer.args.output_dir
        names = {"project_name": "trl", "experiment_name": Path(run).name or "trainer"}
        guarded(scope.turn_on, {**names, "backend": "rolltrace"})


class Attached:
    """What is changed in one trainer, and what is known of its rollouts."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._changed: dict[str, tuple[Any, Any]] = {}
        """Method -> ours, and what the trainer itself had before."""
        self._is_attached = True
        self._generation: Generation | None = None
        self._resets: Resets | None = None
        self._waiting: dict[int, TrajectoryHandle] = {}
        """Rollouts of the last batch, by their numbers."""
        self._untrained: set[int] = set()
        self._masked: set[int] = set()
        """Those of which no token is trained on."""
        self._next_number = 0
        self._change("_generate_and_score_completions", self._rollouts)
        self._change("_generate", self._generating)
        self._change("_generate_single_turn", self._turn)
        self._change("_calculate_rewards", self._rewards)
        self._change("compute_loss", self._loss)
        self._change("train", self._training)
        if hasattr(trainer, "_tool_call_loop"):
            self._change("_tool_call_loop", self._tools)
            self._change("_get_tool_suffix_ids", self._tool_results)

    def restore(self) -> None:
        self._is_attached = False
        for name, (ours, before) in self._changed.items():
            own = vars(self._trainer)
            if own.get(name) is not ours:
                continue  # somebody has changed it after us: ours, inside theirs, only passes on
            if before is _ABSENT:
                del own[name]
            else:
                own[name] = before

    def discard(self, why: str) -> None:
        """What was generated and not trained on never will be."""
        untrained, self._untrained = self._untrained, set()
        for number in sorted(untrained):
            rolltrace.score(self._waiting[number], "fate", "filtered", reason=why)
        self._waiting = {}

    def _change(self, name: str, around: Callable[..., Any]) -> None:
        theirs = getattr(self._trainer, name)

        @functools.wraps(theirs)
        def ours(*args: Any, **kwargs: Any) -> Any:
            if scope.recorder is None or not self._is_attached:
                return theirs(*args, **kwargs)
            return around(theirs, *args, **kwargs)

        self._changed[name] = ours, vars(self._trainer).get(name, _ABSENT)
        setattr(self._trainer, name, ours)

    def _training(self, theirs: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return theirs(*args, **kwargs)
        finally:
            ended(self._trainer)

    def _rollouts(self, theirs: Any, inputs: Any) -> Any:
        generation = guarded(Generation, self._trainer, inputs)
        if generation is None:
            return theirs(inputs)
        self._generation, self._resets = generation, Resets(self._trainer, generation.rows)
        try:
            output = theirs(inputs)
        except BaseException as failure:
            guarded(generation.fail, failure)
            raise
        finally:
            self._generation = None
            self._end_resets()
        guarded(generation.finish, output)
        if not generation.validate:
            guarded(self._expect, generation, output)
        return output

    def _expect(self, generation: Generation, output: Any) -> None:
        """These rollouts are to be trained on: number them in the batch."""
        self.discard("a new batch was generated before it was trained on")
        numbers = range(self._next_number, self._next_number + len(generation.rows))
        self._next_number = numbers.stop
        self._waiting = {number: row.handle for number, row in zip(numbers, generation.rows)}
        self._untrained = set(numbers)
        mask = output["completion_mask"]
        if output.get("tool_mask") is not None:
            mask = mask * output["tool_mask"]
        self._masked = {number for number, tokens in zip(numbers, mask.sum(dim=1).tolist()) if not tokens}
        # Not on a GPU: to read it there would wait for all that the GPU has to do.
        output[ROWS] = output["completion_ids"].new_tensor(list(numbers), device="cpu")

    def _end_resets(self) -> None:
        resets, self._resets = self._resets, None
        if resets is not None:
            guarded(resets.restore)

    def _generating(self, theirs: Any, prompts: Any) -> Any:
        generation = self._generation
        if generation is None:
            return theirs(prompts)
        self._end_resets()
        guarded(generation.prompted, prompts)
        rollout_func = getattr(self._trainer, "rollout_func", None)
        if rollout_func is not None:
            self._trainer.rollout_func = functools.partial(self._rollout_func, generation, rollout_func)
        try:
            with traced_tools(self._trainer, generation):
                return theirs(prompts)
        finally:
            if rollout_func is not None:
                self._trainer.rollout_func = rollout_func

    def _rollout_func(self, generation: Generation, theirs: Any, prompts: Any, *args: Any) -> Any:
        begun = guarded(generation.begin_rollouts, prompts) or []
        output = theirs(prompts, *args)
        guarded(generation.end_rollouts, begun, output)
        return output

    def _turn(self, theirs: Any, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        generation = self._generation
        if generation is None:
            return theirs(prompt_ids, *args, **kwargs)
        begun = guarded(generation.begin_turn, prompt_ids) or []
        try:
            result = theirs(prompt_ids, *args, **kwargs)
        except BaseException as failure:
            for _, span in begun:
                span.failed(failure)
            raise
        guarded(generation.end_turn, begun, result)
        return result

    def _tools(
        self, theirs: Any, prompts: Any, prompt_ids: Any, completion_ids: Any, completions: Any, *more: Any
    ) -> Any:
        generation = self._generation
        if generation is None:
            return theirs(prompts, prompt_ids, completion_ids, completions, *more)
        guarded(generation.begin_tools, completions)
        result = theirs(prompts, prompt_ids, completion_ids, completions, *more)
        guarded(generation.end_tools)
        return result

    def _tool_results(self, theirs: Any, tool_messages: Any) -> Any:
        generation = self._generation
        if generation is not None:
            guarded(generation.tools_answered, tool_messages)
        return theirs(tool_messages)

    def _rewards(self, theirs: Any, inputs: Any, prompts: Any, completions: Any, completion_ids: Any) -> Any:
        generation = self._generation
        if generation is None:
            return theirs(inputs, prompts, completions, completion_ids)
        spans = guarded(generation.begin_rewards, inputs, completions) or []
        try:
            gathered = theirs(inputs, prompts, completions, completion_ids)
        except BaseException as failure:
            for span in spans:
                span.failed(failure)
            raise
        guarded(generation.end_rewards, spans, gathered)
        return gathered

    def _loss(self, theirs: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        loss = theirs(model, inputs, *args, **kwargs)
        if model.training:
            guarded(self._trained, inputs)
        return loss

    def _trained(self, inputs: Any) -> None:
        numbers = inputs.get(ROWS)
        if numbers is None:
            return
        step = self._trainer.state.global_step + 1
        for number in numbers.tolist():
            handle = self._waiting.get(number)
            if handle is None:
                continue
            self._untrained.discard(number)
            if number in self._masked:
                rolltrace.score(handle, "fate", "filtered", reason=_MASKED)
            else:
                rolltrace.score(handle, "fate", "trained", trained_step=step)
