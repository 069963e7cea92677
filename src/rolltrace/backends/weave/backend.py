"""The Weave backend: a trajectory is a trace, its scores are scores of the root call.

What Weave has already is asked before anything is sent: a call that is sent twice fails on one of its servers and shows
up twice, for a while, on another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rolltrace._guard import logger
from rolltrace.backends.backend import Piece, Refused, convert_each, deliver
from rolltrace.backends.weave.calls import WeaveCall, WeaveScore, call_id, calls_of, object_name, scores_of
from rolltrace.backends.weave.service import MissingEndpoint, Project, WeaveService

if TYPE_CHECKING:
    from rolltrace.query import Trajectory

_MAX_REQUEST_BYTES = 8 << 20
"""Weave takes 32 MiB; less, so that one request does not hold up a slow line for minutes."""
_MAX_REQUEST_ITEMS = 500
_MAX_TRAJECTORIES = 100
_MAX_OPS = 500
"""A program that names its ops by what they are given does not fill Weave's list of ops."""
_OP_SOURCE = b"def op(*args, **kwargs):\n    ...  # recorded by rolltrace, which keeps no source\n"
_CREATOR = "rolltrace"
_SCORES = "scores"
_OPS = "a list of ops"


class WeaveBackend:
    """Sends to Weave, with the settings of its own client: WANDB_API_KEY, WANDB_ENTITY, WANDB_BASE_URL, ..."""

    def __init__(self) -> None:
        self._service = WeaveService()
        self._published: dict[tuple[Project, str, str], str] = {}
        """Project, kind and name of what our calls and scores refer to -> how Weave names it."""
        self._missing: set[str] = set()
        """What this Weave has no endpoint for, and goes without: told once each."""

    def send(self, trajectories: Sequence[Trajectory]) -> Sequence[Refused]:
        refused: dict[str, str] = {}
        for project, group in self._groups(trajectories):
            there = self._calls_there(project, group)
            converted = convert_each(group, lambda each: list(calls_of(each)), refused)
            calls = (call for _, of_trajectory in converted for call in of_trajectory if call.id not in there)
            pieces = (self._call_piece(project, call) for call in calls)
            refused |= _deliver(pieces, partial(self._service.add_calls, project))
            refused |= self._bring_scores(project, [each for each in group if each.trajectory_id not in refused])
        return [Refused(trajectory_id, reason) for trajectory_id, reason in refused.items()]

    def update(self, trajectories: Sequence[Trajectory]) -> None:
        for project, group in self._groups(trajectories):
            for trajectory_id, reason in self._bring_scores(project, group).items():
                logger.warning("Weave refused a score of trajectory %s: %s", trajectory_id, reason)

    def calls_in(self, project: str, question: dict[str, Any]) -> list[dict[str, Any]]:
        """Calls that a project has, asked for in Weave's own words: `rolltrace import weave` reads them."""
        # One that is named in full is not looked up: that would make it if it does not exist.
        project_id = project if project.count("/") == 1 else self._service.project(project).id
        calls = self._service.post("/calls/stream_query", {"project_id": project_id, **question})
        return [call for call in calls if isinstance(call, dict) and call.get("trace_id")]

    def links(self, trajectory: Trajectory) -> dict[str, str]:
        """Where Weave shows it, and W&B the run that WANDB_RUN_ID names."""
        page = self._service.page(self._service.project(trajectory.project))
        run_id = os.environ.get("WANDB_RUN_ID", "").strip()
        of_run = {"W&B run": f"{page}/runs/{quote(run_id, safe='')}"} if run_id else {}
        return {"Weave call": f"{page}/r/call/{{uuid}}", **of_run}

    def close(self) -> None:
        """There is nothing to close."""

    def _groups(self, trajectories: Iterable[Trajectory]) -> Iterator[tuple[Project, list[Trajectory]]]:
        once = {each.trajectory_id: each for each in trajectories}
        for name, group in groupby(sorted(once.values(), key=lambda each: each.project), lambda each: each.project):
            project = self._service.project(name)
            while some := list(islice(group, _MAX_TRAJECTORIES)):
                yield project, some

    def _calls_there(self, project: Project, group: Sequence[Trajectory]) -> set[str]:
        traces = [call_id(each.trajectory_id) for each in group]
        question = {"project_id": project.id, "filter": {"trace_ids": traces}, "columns": ["id"]}
        try:
            return {call["id"] for call in self._service.post("/calls/stream_query", question)}
        except MissingEndpoint as error:
            self._go_without("asking what is there: after an outage, calls may be there twice", error)
            return set()

    def _call_piece(self, project: Project, call: WeaveCall) -> Piece:
        fields = {**call.fields, "project_id": project.id, "op_name": self._op(project, object_name(call.op))}
        return _json_piece(call.trajectory_id, fields)

    def _go_without(self, what: str, error: MissingEndpoint) -> None:
        if what not in self._missing:
            self._missing.add(what)
            logger.warning("Weave: continuing without %s (%s)", what, error)

    def _bring_scores(self, project: Project, group: Sequence[Trajectory]) -> dict[str, str]:
        """As `_replace_scores`, where Weave has scores."""
        if _SCORES in self._missing:
            return {}
        try:
            return self._replace_scores(project, group)
        except MissingEndpoint as error:
            self._go_without(_SCORES, error)
            return {}

    def _replace_scores(self, project: Project, group: Sequence[Trajectory]) -> dict[str, str]:
        """Make the scores in Weave those that we have; gives the trajectories with one that it will never take."""
        refused: dict[str, str] = {}
        wanted = {score.id: score for _, scores in convert_each(group, scores_of, refused) for score in scores}
        group = [each for each in group if each.trajectory_id not in refused]
        there = self._scores_there(project, group)
        stale = [{"$eq": [{"$getField": "id"}, {"$literal": each}]} for each in sorted(there - wanted.keys())]
        for start in range(0, len(stale), _MAX_REQUEST_ITEMS):
            some = {"$or": stale[start : start + _MAX_REQUEST_ITEMS]}
            try:
                self._service.post("/feedback/purge", {"project_id": project.id, "query": {"$expr": some}})
            except MissingEndpoint as error:
                self._go_without("taking scores back: those that were replaced stay beside the new ones", error)
        missing = (score for score in wanted.values() if score.id not in there)
        pieces = (self._score_piece(project, score) for score in missing)
        return refused | _deliver(pieces, self._service.add_feedback)

    def _scores_there(self, project: Project, group: Sequence[Trajectory]) -> set[str]:
        """The ids of the scores that we have given these; people and other programs may have given some too."""
        calls = [{"$literal": project.reference("call", call_id(each.trajectory_id))} for each in group]
        of_calls = {"$in": [{"$getField": "weave_ref"}, calls]}
        ours = {"$eq": [{"$getField": "creator"}, {"$literal": _CREATOR}]}
        query = {"$expr": {"$and": [of_calls, ours]}}
        (answer,) = self._service.post("/feedback/query", {"project_id": project.id, "fields": ["id"], "query": query})
        return {row["id"] for row in answer["result"]}

    def _score_piece(self, project: Project, score: WeaveScore) -> Piece:
        name = object_name(score.name)
        feedback = {
            "id": score.id,
            "project_id": project.id,
            "weave_ref": project.reference("call", call_id(score.trajectory_id)),
            "creator": _CREATOR,
            "feedback_type": f"wandb.runnable.{name}",  # what Weave has columns for
            "runnable_ref": self._scorer(project, name),
            "payload": {"output": score.output},
        }
        return _json_piece(score.trajectory_id, feedback)

    def _op(self, project: Project, name: str) -> str:
        if (project, "op", name) not in self._published:
            if len(self._published) >= _MAX_OPS:
                return name
            if _OPS in self._missing:
                return name
            try:
                source = self._service.add_file(project, "obj.py", _OP_SOURCE)
                value = {"_type": "CustomWeaveType", "weave_type": {"type": "Op"}, "files": {"obj.py": source}}
                self._publish(project, "op", name, value)
            except MissingEndpoint as error:
                self._go_without(_OPS, error)
                return name
        return self._published[project, "op", name]

    def _scorer(self, project: Project, name: str) -> str:
        if (project, "object", name) not in self._published:
            self._publish(project, "object", name, {"name": name, "description": "A score recorded by rolltrace"})
        return self._published[project, "object", name]

    def _publish(self, project: Project, kind: str, name: str, value: dict[str, Any]) -> None:
        """Publishing the same again changes nothing."""
        published = {"project_id": project.id, "object_id": name, "val": value}
        (answer,) = self._service.post("/obj/create", {"obj": published})
        self._published[project, kind, name] = project.reference(kind, f"{name}:{answer['digest']}")


def _deliver(pieces: Iterable[Piece], post: Callable[[list[bytes]], None]) -> dict[str, str]:
    return deliver(pieces, post, lambda: _MAX_REQUEST_BYTES, _MAX_REQUEST_ITEMS)


def _json_piece(trajectory_id: str, value: dict[str, Any]) -> Piece:
    body = json.dumps(value).encode()
    return Piece(trajectory_id, body, len(body))
