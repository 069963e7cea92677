"""The same rollouts of verl with each tracing backend: wall time, and how late the event loop is.

Real AgentLoopWorker and ToolAgentLoop on a CPU, with a stand-in for the model. Each backend has a process of its own.
Run with `make bench-verl`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

BACKENDS = ("null", "rolltrace", "mlflow", "trackio")
ROUNDS = 15
ROLLOUTS = 32
_TICK_SEC = 0.002
_RIG = Path(__file__).parents[1] / "tests/integrations/verl"
"""Where the tests have what stands around an agent loop."""


def main() -> None:
    print(f"{ROUNDS} batches of {ROLLOUTS} rollouts, each with two model calls and a tool; medians over the batches\n")
    print(f"{'backend':<12}{'wall':>10}{'of null':>10}{'lag p50':>12}{'lag p99':>12}{'lag max':>12}")
    untraced = None
    for backend in BACKENDS:
        with tempfile.TemporaryDirectory(prefix="bench") as folder:
            figures = measure(backend, Path(folder))
        if "error" in figures:
            print(f"{backend:<12} {figures['error']}")
        else:
            untraced = untraced or figures["wall"]
            lags = "".join(f"{1000 * figures[name]:>9.2f} ms" for name in ("p50", "p99", "max"))
            print(f"{backend:<12}{figures['wall']:>8.3f} s{figures['wall'] / untraced:>8.2f} x{lags}")


def measure(backend: str, folder: Path) -> dict[str, Any]:
    environment = {
        **os.environ,
        "ROLLTRACE_STORE": str(folder / "store"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
        "TRACKIO_DIR": str(folder / "trackio"),
        "HF_HUB_OFFLINE": "1",
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])),
    }
    command = [sys.executable, "-m", "benchmarks.verl_cost", backend, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip().rpartition("\n")[2]}
    figures: dict[str, Any] = json.loads(done.stdout.rstrip().rpartition("\n")[2])
    return figures


def roll_out(backend: str, folder: Path) -> None:
    """In its own process: print what one backend costs."""
    ray = import_module("ray")
    package = sys.modules["verls_rig"] = ModuleType("verls_rig")  # verl brings a package `tests` of its own
    package.__path__ = [str(_RIG)]
    rig_module, parts = import_module("verls_rig.rig"), import_module("verls_rig.parts")
    model = import_module("verls_rig.tiny_model").make_model(folder / "model")
    for module in (rig_module, parts):
        import_module("ray.cloudpickle").register_pickle_by_value(module)
    with tempfile.TemporaryDirectory(prefix="ray") as sockets:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=sockets)
        rig = rig_module.Rig(folder, model)
        print(json.dumps(asyncio.run(_measured(rig, rig_module, rig.config("bench", backend=backend)))))
        ray.shutdown()


async def _measured(rig: Any, rig_module: Any, config: Any) -> dict[str, float]:
    worker = rig_module.AgentLoopWorker(config, rig.client(config), None, [rig.judge])
    batch = rig_module.parts.batch_of(["add"], n=ROLLOUTS)
    await worker.generate_sequences(batch)
    walls, lags = [], []
    for _ in range(ROUNDS):
        late: list[float] = []
        ticking = asyncio.create_task(_tick(late))
        begun = time.perf_counter()
        await worker.generate_sequences(batch)
        walls.append(time.perf_counter() - begun)
        ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ticking
        late.sort()
        lags.append((late[len(late) // 2], late[int(len(late) * 0.99)], late[-1]))
    p50, p99, most = (statistics.median(column) for column in zip(*lags))
    return {"wall": statistics.median(walls), "p50": p50, "p99": p99, "max": most}


async def _tick(late: list[float]) -> None:
    while True:
        due = time.perf_counter() + _TICK_SEC
        await asyncio.sleep(_TICK_SEC)
        late.append(time.perf_counter() - due)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        roll_out(sys.argv[1], Path(sys.argv[2]))
    else:
        main()
