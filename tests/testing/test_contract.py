"""The contract itself: a backend that keeps it passes, and each way of breaking it is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rolltrace.backends.backend import Refused
from rolltrace.query import Op, Trajectory
from rolltrace.testing import BackendContract, Seen, SeenOp


class Vendor:
    """Keeps what it is given, by our ids."""

    def __init__(self) -> None:
        self.trajectories: dict[str, Seen] = {}


class VendorBackend:
    def __init__(self, vendor: Vendor) -> None:
        self.vendor = vendor

    def send(self, trajectories: Sequence[Trajectory]) -> Sequence[Refused]:
        for each in trajectories:
            coordinates = {name: str(getattr(each, name)) for name in ("step", "sample_index", "rollout_n", "validate")}
            self.vendor.trajectories[each.trajectory_id] = Seen(
                [op for top in each.ops for op in self.seen(top, None)],
                self.scores(each),
                {**coordinates, "experiment": each.experiment},
                each.status != "ok",
            )
        return []

    def update(self, trajectories: Sequence[Trajectory]) -> None:
        for each in trajectories:
            before = self.vendor.trajectories[each.trajectory_id]
            self.vendor.trajectories[each.trajectory_id] = replace(before, scores=self.scores(each))

    def close(self) -> None:
        pass

    def scores(self, trajectory: Trajectory) -> dict[str, float]:
        return {score["name"]: score["value"] for score in trajectory.scores}

    def seen(self, op: Op, parent: str | None) -> list[SeenOp]:
        own = SeenOp(
            str(op.op_id), parent, op.name, op.status != "ok", op.inputs, op.outputs, op.error, op.start_ns, op.end_ns
        )
        return [own, *(each for child in op.children for each in self.seen(child, own.id))]


class TestGoodBackend(BackendContract):
    vendor = Vendor()

    def make_backend(self) -> VendorBackend:
        return VendorBackend(self.vendor)

    def read_back(self, trajectory_id: str) -> Seen | None:
        return self.vendor.trajectories.get(trajectory_id)


class Doubling(VendorBackend):
    def send(self, trajectories: Sequence[Trajectory]) -> Sequence[Refused]:
        for each in trajectories:
            before = self.vendor.trajectories.get(each.trajectory_id, Seen([])).ops
            super().send([each])
            seen = self.vendor.trajectories[each.trajectory_id]
            again = [replace(op, id=f"{op.id}-{len(before)}", parent=None) for op in before]
            self.vendor.trajectories[each.trajectory_id] = replace(seen, ops=[*seen.ops, *again])
        return []


class Flat(VendorBackend):
    def seen(self, op: Op, parent: str | None) -> list[SeenOp]:
        return [replace(each, parent=None) for each in super().seen(op, parent)]


class Forgetful(VendorBackend):
    def update(self, trajectories: Sequence[Trajectory]) -> None:
        pass


class Ascii(VendorBackend):
    def seen(self, op: Op, parent: str | None) -> list[SeenOp]:
        found = super().seen(op, parent)
        return [replace(each, inputs=str(each.inputs).encode("ascii", "replace").decode()) for each in found]


class Cheerful(VendorBackend):
    def seen(self, op: Op, parent: str | None) -> list[SeenOp]:
        return [replace(each, failed=False) for each in super().seen(op, parent)]


class Millisecond(VendorBackend):
    def seen(self, op: Op, parent: str | None) -> list[SeenOp]:
        return [replace(each, start_ns=(each.start_ns or 0) // 10**6 * 10**6) for each in super().seen(op, parent)]


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        (Doubling, "test_a_repeat_doubles_nothing"),
        (Flat, "test_every_op_arrives_with_its_inputs_outputs_and_times"),
        (Forgetful, "test_late_scores_arrive_by_an_update"),
        (Ascii, "test_text_of_every_language_arrives"),
        (Cheerful, "test_an_error_arrives"),
        (Millisecond, "test_every_op_arrives_with_its_inputs_outputs_and_times"),
    ],
)
def test_a_backend_that_breaks_it_is_found_out(kind: type[VendorBackend], broken: str, tmp_path: Path) -> None:
    vendor = Vendor()

    class Contract(BackendContract):
        def make_backend(self) -> Any:
            return kind(vendor)

        def read_back(self, trajectory_id: str) -> Seen | None:
            return vendor.trajectories.get(trajectory_id)

    with pytest.raises(AssertionError):
        getattr(Contract(), broken)(tmp_path)


def test_importing_the_kit_loads_neither_pytest_nor_a_column_library() -> None:
    import subprocess
    import sys

    program = "import sys, rolltrace.testing; print(sorted({'pytest', 'pyarrow', 'duckdb'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "[]"
