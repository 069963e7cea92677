"""Every test starts with tracing off, no settings in the environment, and our own faults raised."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace import _guard, _runtime
from rolltrace.testing import Recording, recording


@pytest.fixture(autouse=True)
def _strict_and_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in os.environ:
        if name.startswith("ROLLTRACE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ROLLTRACE_STRICT", "1")
    monkeypatch.setenv("ROLLTRACE_DRAIN", "off")  # most tests read what is in the journal
    yield
    rolltrace.shutdown()
    _guard.faults.clear()
    _runtime._warned.clear()


@pytest.fixture
def traced() -> Iterator[Recording]:
    """Tracing is on, into memory."""
    with recording() as made:
        yield made


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own faults are caught and counted, as they are in production."""
    monkeypatch.delenv("ROLLTRACE_STRICT")


# A third party's backend: it appends what it gets to a file; other files tell it how to behave, at each call.
SHIPPING = """
import json, os, time
from pathlib import Path
from rolltrace.backends.backend import Refused
from rolltrace.errors import BackendError

class Backend:
    name = "NAME"

    def __init__(self):
        self.folder = Path(os.environ["SHIPPING"])
        if self.asked("unset"):
            raise BackendError("SHIPPING_KEY is not set; get one at the harbour")

    def asked(self, behaviour):
        return (self.folder / f"{self.name}-{behaviour}").exists()

    def behave(self):
        if self.asked("wrong-key"):
            raise BackendError("the key is wrong: set SHIPPING_KEY")
        if self.asked("down"):
            raise ConnectionError("no ship in the harbour")
        if self.asked("hang"):
            (self.folder / f"{self.name}-hangs").touch()
            time.sleep(1000)

    def write(self, call, trajectories):
        lines = [json.dumps({
            "call": call, "id": each.trajectory_id, "step": each.step, "sample": each.sample_index,
            "ops": [op.name for op in each.walk()], "scores": [score["value"] for score in each.scores],
            "batch": len(trajectories),
        }) + "\\n" for each in trajectories]
        file = os.open(self.folder / f"{self.name}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, "".join(lines).encode())  # all or nothing, whoever is killed
        os.close(file)
        (self.folder / f"{self.name}-called").touch()
        if self.asked("slow"):
            time.sleep(0.2)

    def send(self, trajectories):
        self.behave()
        for each in trajectories:
            if each.name == "poison":
                raise TypeError("cannot take poison")
        taken = [each for each in trajectories if each.name != "contraband"]
        self.write("send", taken)
        return [Refused(each.trajectory_id, "contraband") for each in trajectories if each.name == "contraband"]

    def update(self, trajectories):
        self.behave()
        self.write("update", trajectories)

    def close(self):
        (self.folder / f"{self.name}-closed").touch()
"""


class Harbour:
    """What arrived at the backends `shipping` and `trucking`, and how they behave."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def let(self, behaviour: str, name: str = "shipping") -> None:
        """Make it `down`, `slow`, `hang`, `unset`, or its key `wrong-key`."""
        (self.folder / f"{name}-{behaviour}").touch()

    def stop(self, behaviour: str, name: str = "shipping") -> None:
        (self.folder / f"{name}-{behaviour}").unlink()

    def arrived(self, name: str = "shipping") -> list[dict[str, Any]]:
        try:
            lines = (self.folder / f"{name}.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]

    def sent(self, name: str = "shipping") -> Counter[str]:
        """How often each trajectory was sent."""
        return Counter(line["id"] for line in self.arrived(name) if line["call"] == "send")


@pytest.fixture
def harbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harbour]:
    """Two backends of a third party, installed for this process and all that it starts."""
    site = tmp_path / "site"
    for name in ("shipping", "trucking"):
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[rolltrace.backends]\n{name} = {name}_backend:Backend\n")
        (site / f"{name}_backend.py").write_text(SHIPPING.replace("NAME", name))
    folder = tmp_path / "harbour"
    folder.mkdir()
    monkeypatch.setenv("SHIPPING", str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])))
    monkeypatch.syspath_prepend(str(site))
    yield Harbour(folder)
    for name in ("shipping_backend", "trucking_backend"):
        sys.modules.pop(name, None)
