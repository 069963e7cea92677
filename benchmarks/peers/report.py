"""The table against the peers: `python -m benchmarks.peers.report [--trajectories N] [--chats FILE] [--only NAME]`.

Needs the peers' environments: `make bench-peers` installs them. Writes docs/benchmarks.md and its pictures, unless
`--only` or `--no-docs` is given.
"""

import argparse
import contextlib
import json
import os
import pickle
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.peers import CONTENDERS, Contender
from benchmarks.peers.page import write_page
from benchmarks.peers.peer import json_bytes
from benchmarks.workload import Trajectory, from_chats, generate
from tests.background import kill_keepers
from tests.integrations.servers import QUIET, MlflowServer, Server

ROOT = Path(__file__).parents[2]
WORKERS = 8
TASK_SEC = 900


class _Sink(Server):
    health = "/"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "benchmarks.peers.sink", str(self.folder), str(self.port)]

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT)}


class _Mlflow(MlflowServer):
    def command(self) -> list[str]:
        return [str(ROOT / ".venvs/mlflow/bin/python"), *super().command()[1:]]


@dataclass
class Bench:
    """One contender with a workload."""

    contender: Contender
    workload: Path
    trajectories: list[Trajectory]

    @property
    def python(self) -> str:
        name = self.contender.environment
        return str(ROOT / f".venvs/{name}/bin/python") if name else sys.executable

    @contextlib.contextmanager
    def place(self) -> Iterator[tuple[Path, str, dict[str, str]]]:
        """A fresh folder, the address of what serves it, and what the environment says of it."""
        with tempfile.TemporaryDirectory(prefix="bench-peers-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            kind = self.contender.place
            if kind == "mlflow":
                with _Mlflow(folder) as server:
                    yield folder, server.url, {}
            elif kind == "sqlite":
                yield folder, f"sqlite:///{folder}/mlflow.db", {}
            elif kind == "weave":
                from tests.integrations.weave.conftest import KEY, WeaveServer

                with WeaveServer(folder) as server:
                    environment = {
                        "WANDB_API_KEY": KEY,
                        "WANDB_BASE_URL": server.url,
                        "WF_TRACE_SERVER_URL": server.url,
                    }
                    yield folder, server.url, {**environment, "WEAVE_PRINT_CALL_LINK": "false"}
            elif kind == "sink":
                with _Sink(folder) as server:
                    yield folder, server.url, {}
            else:
                yield folder, "", {}
            kill_keepers(folder)

    def command(self, folder: Path, url: str, task: str, *more: str) -> list[str]:
        kind = f"{self.contender.module}:{self.contender.kind}"
        words = [self.python, "-m", "benchmarks.peers.tasks", str(self.workload), kind, str(folder), url or "-", task]
        return [*words, "--package", self.contender.package, *more]

    def run(self, place: tuple[Path, str, dict[str, str]], task: str, *more: str) -> dict[str, Any]:
        folder, url, environment = place
        done = subprocess.run(
            self.command(folder, url, task, *more),
            env=_environment(environment),
            capture_output=True,
            text=True,
            timeout=TASK_SEC,
            check=False,
            cwd=folder,
        )
        if done.returncode:
            raise RuntimeError(f"{self.contender.name}, {task}: {done.stderr.strip()[-1500:]}")
        answer: dict[str, Any] = json.loads(done.stdout.rstrip().rpartition("\n")[2])
        return answer

    def figures(self) -> dict[str, Any]:
        """All that the table has of it."""
        with self.place() as place:
            figures = self.run(place, "cost")
        with self.place() as place:
            figures["lag"] = self.run(place, "lag")
        figures["trajectories"] = len(self.trajectories)
        raw_bytes = json_bytes([payload for each in self.trajectories for payload in each.payloads()])
        with self.place() as place:
            empty = folder_bytes(place[0])
            figures["stored_sec"] = self.run(place, "record")["seconds"]
            figures["disk_share"] = (folder_bytes(place[0]) - empty) / raw_bytes
            figures["stored_mb_per_sec"] = raw_bytes / 1e6 / figures["stored_sec"]
            answered = self.run(place, "read")
            figures.update(list=answered["list"], open=answered["open"], kept=len(answered["complete"]))
        with self.place() as place:
            figures["kill"] = self.killed(place)
        with self.place() as place:
            figures["workers"] = self.crowded(place)
        return figures

    def killed(self, place: tuple[Path, str, dict[str, str]]) -> dict[str, int]:
        """Half of the trajectories have ended when the process is killed: how many of these are complete."""
        folder, url, environment = place
        process = subprocess.Popen(
            self.command(folder, url, "record_at_once"),
            env=_environment(environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=folder,
        )
        assert process.stdout is not None
        ended = set()
        for line in process.stdout:
            if line.startswith("ended "):
                _, sample, rollout = line.split()
                ended.add((int(sample), int(rollout)))
            if len(ended) >= len(self.trajectories) // 2:
                process.send_signal(signal.SIGKILL)
                break
        process.communicate()
        return {"ended": len(ended), "complete": len(ended & self.complete(place))}

    def crowded(self, place: tuple[Path, str, dict[str, str]]) -> dict[str, int]:
        """Several processes begin at once on a place where nobody has been."""
        folder, url, environment = place
        started = [
            subprocess.Popen(
                self.command(folder, url, "record", "--part", f"{number}/{WORKERS}"),
                env=_environment(environment),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
            )
            for number in range(WORKERS)
        ]
        failed = sum(process.wait(TASK_SEC) != 0 for process in started)
        complete = len(self.complete(place))
        return {"traced": len(self.trajectories), "complete": complete, "failed_workers": failed}

    def complete(self, place: tuple[Path, str, dict[str, str]]) -> set[tuple[int, int]]:
        """The trajectories that can be read whole after something went wrong: none if the peer cannot read at all."""
        try:
            return {(sample, rollout) for sample, rollout in self.run(place, "read")["complete"]}
        except RuntimeError as fault:
            sys.stderr.write(f"  unreadable: {fault.args[0].splitlines()[-1][:200]}\n")
            return set()


def _environment(more: dict[str, str]) -> dict[str, str]:
    return {
        **os.environ,
        **QUIET,
        **more,
        "PYTHONPATH": str(ROOT),
        "NO_PROXY": "127.0.0.1",
        "ROLLTRACE_QUIET": "1",
        "WANDB_ERROR_REPORTING": "false",
    }


def folder_bytes(folder: Path) -> int:
    """What it holds, without journal files that are made ahead and hold nothing."""
    return sum(
        file.stat().st_size for file in folder.rglob("*") if file.is_file() and file.suffix not in (".spare", ".log")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--trajectories", type=int, default=16, help="how many to trace (Weave: at most 8)")
    parser.add_argument("--chats", type=Path, metavar="FILE", help="your own chats: JSON lines with `messages`")
    parser.add_argument("--only", metavar="NAME", help="contenders whose names begin so; docs stay as they are")
    parser.add_argument("--no-docs", action="store_true", help="print the table only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    arguments = parser.parse_args()
    count = arguments.trajectories
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="bench-peers-") as folder:
        for contender in CONTENDERS:
            if arguments.only and not contender.name.lower().startswith(arguments.only.lower()):
                continue
            own_count = min(count, contender.most)
            trajectories = from_chats(arguments.chats, own_count) if arguments.chats else generate(own_count)
            workload = Path(folder, "workload")
            workload.write_bytes(pickle.dumps(trajectories))
            sys.stderr.write(f"{contender.name}: {len(trajectories)} trajectories ...\n")
            try:
                results[contender.name] = Bench(contender, workload, trajectories).figures()
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as fault:
                results[contender.name] = {"error": str(fault)}
    report = {
        "date": f"{datetime.now(timezone.utc):%Y-%m-%d}",
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "workload": "chats of a file" if arguments.chats else "the seeded generator",
        "trajectories": count,
        "results": results,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    text = write_page(report, None if arguments.only or arguments.no_docs or arguments.chats else ROOT / "docs")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
