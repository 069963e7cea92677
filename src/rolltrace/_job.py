"""Which run a process belongs to: one id for all processes of one training job.

The first of these that exists decides: what the user says (`run=`, `ROLLTRACE_RUN`), the Ray job, the job of a launcher
(torchrun, Slurm), else an id that the first `init` makes. That one goes into `ROLLTRACE_RUN`, so that children have it
too, however they are started.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Mapping

from rolltrace.settings import variable_of

LONGEST = 200
"""Characters of a run's id."""
_VARIABLE = variable_of("run")
_LOCAL = frozenset({"", "localhost", "127.0.0.1", "::1"})
_made: str | None = None


def run_of_this_job(run: str | None) -> str:
    """The id of the run, made if nothing says what it is."""
    return (run or _of_ray() or of_launcher(os.environ) or _make())[:LONGEST]


def end_run() -> None:
    """A run that this process made is over: the next `init` begins another."""
    global _made
    if _made is not None and os.environ.get(_VARIABLE) == _made:
        del os.environ[_VARIABLE]
    _made = None


def is_child() -> bool:
    """Whether this process was started by another one of the job, or is one of its ranks but the first."""
    rank = next((os.environ[name] for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK") if os.environ.get(name)), "0")
    if rank != "0" or os.environ.get(_VARIABLE, _made) != _made:
        return True
    if "multiprocessing.process" in sys.modules and sys.modules["multiprocessing.process"].parent_process() is not None:
        return True
    ray = sys.modules.get("ray._private.worker")
    return ray is not None and getattr(ray.global_worker, "mode", None) == ray.WORKER_MODE


def _make() -> str:
    global _made
    if _made is None:
        _made = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"
        os.environ[_VARIABLE] = _made
    return _made


def _of_ray() -> str | None:
    """Job ids begin anew in each Ray cluster, so the session of the cluster is a part of it."""
    ray = sys.modules.get("ray")
    try:
        if ray is None or not ray.is_initialized():
            return None
        context = ray.get_runtime_context()
        session = str(context.worker.node.session_name).removeprefix("session_")
        return f"ray-{session}-{context.get_job_id()}"
    except Exception:  # half imported, or another version of Ray
        return None


def of_launcher(environ: Mapping[str, str]) -> str | None:
    """The job of torchrun or Slurm; None where neither started this process as one of several."""
    if "RANK" in environ and "WORLD_SIZE" in environ:
        job = _of_torchrun(environ)
        if job is not None:
            return job
    if _is_task_of_srun(environ):
        step = environ.get("SLURM_STEP_ID", "0")
        return _attempt(f"slurm-{environ.get('SLURM_JOB_ID', '0')}.{step}", environ.get("SLURM_RESTART_COUNT"))
    if "RANK" in environ and environ.get("WORLD_SIZE", "1") != "1":
        # All that the ranks of several hosts share; the same each time that the job is started by hand.
        return f"ranks-{environ.get('MASTER_ADDR', '')}-{environ.get('MASTER_PORT', '')}"
    return None


def _is_task_of_srun(environ: Mapping[str, str]) -> bool:
    """Not a single task, and not a batch script, which looks like task 0 but has no step: in these, people start one
    run after the other."""
    is_one_of_several = environ.get("SLURM_STEP_NUM_TASKS", environ.get("SLURM_NTASKS", "1")) != "1"
    return is_one_of_several and ("SLURM_STEP_ID" in environ or environ.get("SLURM_PROCID", "0") != "0")


def _of_torchrun(environ: Mapping[str, str]) -> str | None:
    name, restarts = environ.get("TORCHELASTIC_RUN_ID", ""), environ.get("TORCHELASTIC_RESTART_COUNT")
    on_one_host = environ.get("LOCAL_WORLD_SIZE") == environ["WORLD_SIZE"] or environ.get("MASTER_ADDR", "") in _LOCAL
    if on_one_host:
        # Ranks of one host have one parent, which is another one next time, whatever the user calls the job.
        return _attempt(f"torchrun-{os.getppid()}-{_started(os.getppid())}", restarts)
    if name and name != "none":  # torchrun's word for no name
        return _attempt(f"torchrun-{name}", restarts)
    return None


def _attempt(job: str, restarts: str | None) -> str:
    """A job that its launcher has started again repeats steps: another run."""
    return job if restarts in (None, "", "0") else f"{job}-restart-{restarts}"


def _started(pid: int) -> str:
    """When a process was started, in ticks since the machine was: pids are used again."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"
