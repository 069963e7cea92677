"""`attach`: record what a trainer of TRL does. The one trainer is changed, not its class, which others rebuild.

While tracing is off each of the changed methods only looks whether it is on.
"""

from __future__ import annotations

import functools
from inspect import BoundArguments
from pathlib import Path
from typing import Any

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import TrajectoryHandle, scope
from rolltrace.errors import ConfigError
from rolltrace.integrations.after_import import after_import, waiting_for
from rolltrace.integrations.seams import Hook, Steps, hook, hooked
from rolltrace.integrations.trl.framework import RELEASES
from rolltrace.integrations.trl.generation import Generation
from rolltrace.integrations.trl.tools import Resets, traced_tools

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
        try:
            attached.discard(_LEFT_OVER)
        except Exception:
            caught("trl")


def _turn_on(trainer: Any) -> None:
    """Turn tracing on if nobody has decided whether there is any."""
    if scope.recorder is None:
        run = getattr(trainer.args, "run_name", None) or trainer.args.output_dir
        names = {"project_name": "trl", "experiment_name": Path(run).name or "trainer"}
        try:
            scope.turn_on({**names, "backend": "rolltrace"})
        except Exception:
            caught("trl")


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
        self._change("_generate_and_score_completions", self._follow_rollouts)
        self._change("_generate", self._follow_generating)
        self._change("_generate_single_turn", self._follow_turn)
        self._change("_calculate_rewards", self._follow_rewards)
        self._change("compute_loss", self._note_loss)
        self._change("train", self._follow_training)
        if hasattr(trainer, "_tool_call_loop"):
            self._change("_tool_call_loop", self._follow_tools)
            self._change("_get_tool_suffix_ids", self._note_tool_results)

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

    def _change(self, name: str, work: Hook) -> None:
        ours = hooked(getattr(self._trainer, name), work)
        self._changed[name] = ours, vars(self._trainer).get(name, _ABSENT)
        setattr(self._trainer, name, ours)

    def _follow_training(self, call: BoundArguments) -> Steps:
        try:
            yield
        finally:
            ended(self._trainer)

    def _follow_rollouts(self, call: BoundArguments) -> Steps:
        if not self._is_attached:
            return
        self._generation = generation = Generation(self._trainer, call.args[0])
        self._resets = Resets(self._trainer, generation.rows)
        try:
            output = yield
        except BaseException as failure:
            generation.fail(failure)
            raise
        finally:
            self._generation = None
            self._end_resets()
        generation.finish(output)
        if not generation.validate:
            self._expect(generation, output)

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
            resets.restore()

    def _follow_generating(self, call: BoundArguments) -> Steps:
        generation, trainer = self._generation, self._trainer
        if generation is None:
            return
        self._end_resets()
        generation.prompted(call.args[0])
        rollout_func = getattr(trainer, "rollout_func", None)
        if rollout_func is not None:
            trainer.rollout_func = hooked(rollout_func, functools.partial(_follow_rollout_func, generation))
        try:
            with traced_tools(trainer, generation):
                yield
        finally:
            if rollout_func is not None:
                trainer.rollout_func = rollout_func

    def _follow_turn(self, call: BoundArguments) -> Steps:
        generation = self._generation
        if generation is None:
            return
        begun = generation.begin_turn(call.args[0])
        try:
            result = yield
        except BaseException as failure:
            for _, span in begun:
                span.failed(failure)
            raise
        generation.end_turn(begun, result)

    def _follow_tools(self, call: BoundArguments) -> Steps:
        generation = self._generation
        if generation is None:
            return
        generation.begin_tools(call.args[3])  # after the prompts, their ids and the ids of the completions
        yield
        generation.end_tools()

    def _note_tool_results(self, call: BoundArguments) -> Steps:
        if self._generation is not None:
            self._generation.tools_answered(call.args[0])
        yield

    def _follow_rewards(self, call: BoundArguments) -> Steps:
        generation = self._generation
        if generation is None:
            return
        inputs, _, completions = call.args[:3]
        spans = generation.begin_rewards(inputs, completions)
        try:
            gathered = yield
        except BaseException as failure:
            for span in spans:
                span.failed(failure)
            raise
        generation.end_rewards(spans, gathered)

    def _note_loss(self, call: BoundArguments) -> Steps:
        yield
        model, inputs = call.args[:2]
        if model.training and self._is_attached:
            self._trained(inputs)

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


def _follow_rollout_func(generation: Generation, call: BoundArguments) -> Steps:
    begun = generation.begin_rollouts(call.args[0])
    output = yield
    generation.end_rollouts(begun, output)


_is_installed = False


@waiting_for("trl")
def install_when_imported() -> None:
    """For `rolltrace run train.py`: attach to every trainer whose rollouts can be recorded, as it is made."""
    global _is_installed
    if not _is_installed:
        _is_installed = True
        after_import("transformers.trainer", _change_transformers)


def _change_transformers(module: Any) -> None:
    """Change `transformers.trainer`: that of TRL is rebuilt by others, but always calls this."""
    hook(module.Trainer, "__init__", _attach_to_new, always=True)


def _attach_to_new(call: BoundArguments) -> Steps:
    yield
    trainer = call.arguments["self"]
    if not missing_seams(type(trainer)):
        attach(trainer)
