"""What every backend promises, with the real Weave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rolltrace.backends.weave import WeaveBackend
from rolltrace.backends.weave.calls import call_id
from rolltrace.record import to_json
from rolltrace.testing import BackendContract, Seen, SeenOp

from .conftest import ENTITY, WeaveServer
from .reading import nanoseconds, plain


class TestWeave(BackendContract):
    @pytest.fixture(autouse=True)
    def _weave(self, server: WeaveServer) -> None:
        """`server` has set the environment."""

    def make_backend(self) -> WeaveBackend:
        return WeaveBackend()

    def same_value(self, recorded: Any, seen: Any) -> bool:
        return bool(to_json(recorded) == seen)

    def read_back(self, trajectory_id: str) -> Seen | None:
        import weave

        client = weave.init(f"{ENTITY}/contract")
        root_id = call_id(trajectory_id)
        calls = list(client.get_calls(filter={"trace_ids": [root_id]}, include_feedback=True))
        weave.finish()
        if not calls:
            return None
        (root,) = (call for call in calls if call.id == root_id)
        given = root.summary["weave"]["feedback"]
        told = {**root.attributes, "experiment": root.attributes["experiment_name"]}
        return Seen(
            ops=[_seen(call, root_id) for call in calls if call.id != root_id],
            scores={each["feedback_type"].split(".")[-1]: each["payload"]["output"].get("value") for each in given},
            coordinates={name: str(value) for name, value in told.items()},
            failed=root.exception is not None,
        )


def _seen(call: Any, root_id: str) -> SeenOp:
    return SeenOp(
        id=call.id,
        parent=None if call.parent_id == root_id else call.parent_id,
        name=call.func_name,
        failed=call.exception is not None,
        inputs=plain(call.inputs),
        outputs=plain(call.output),
        error=None if call.exception is None else json.loads(call.exception)["message"],
        start_ns=nanoseconds(call.started_at),
        end_ns=nanoseconds(call.ended_at),
    )
