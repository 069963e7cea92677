"""`rolltrace run`: a program with tracing on, its child processes included, without a change of the program.

It sets environment variables and becomes the program (`exec`): process id, exit code, signals, `sys.argv`, `__main__`
and tracebacks are those of the program alone. When a Python program ends, one line on stderr says what was recorded
(`run_summary`).
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rolltrace.cli.command import WORDS, argument, command, option
from rolltrace.cli.options import Options
from rolltrace.cli.output import plain, warn
from rolltrace.errors import ConfigError

_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
"""What a shell gives for a command that it cannot run."""
_SITE = Path(__file__).parent.parent / "_site"
_EXAMPLES = """examples:
  rolltrace run train.py --lr 1e-5
  rolltrace run --project math --experiment grpo-7b -m my.train --lr 1e-5
  rolltrace run -m tinker_cookbook.recipes.math_rl.train model_name=...
  rolltrace run -- torchrun --nproc-per-node 8 train.py

What stands after the script, the module or -- belongs to the program."""


class _Program(NamedTuple):
    words: list[str]
    """The command line."""
    name: str | None
    """What to call the experiment, if nothing else does."""


@command(
    "run a program with tracing on",
    "Run a Python script, a module or any command with tracing on, in it and in the Python processes that it starts. "
    "What is installed and known to rolltrace (verl, tinker-cookbook, TRL, prime-rl; OpenAI, Anthropic, LiteLLM, "
    "LangChain, OpenAI Agents) is traced without a change of the program.",
    option("--project P", "what the work is called"),
    option("--experiment E", "what this experiment is called: the script or module"),
    option("--store S", "the store folder; ROLLTRACE_STORE or ~/.rolltrace if not given"),
    option("-m", "the program is a module, as of python -m", dest="is_module"),
    argument("program", "a script and its arguments", "(SCRIPT | -m MODULE | -- COMMAND) ...", nargs=-1),
    context_settings={"allow_interspersed_args": False},
    epilog=_EXAMPLES,
)
def run(options: Options) -> int:
    program = _program(options)
    environment = _environment(options, program)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(program.words[0], program.words, environment)
    except FileNotFoundError:
        warn(f"there is no command {plain(program.words[0])!r}")
        return _NOT_FOUND
    except OSError as error:
        warn(f"cannot run {plain(program.words[0])!r}: {error.strerror or error}")
        return _NOT_EXECUTABLE


def _program(options: Options) -> _Program:
    words: list[str] = options.program
    if options.is_module:
        if not words:
            options.usage_error("-m needs the name of a module")
        return _Program([sys.executable, "-m", *words], words[0])
    before = options.context.meta[WORDS][: -len(words) or None]
    if before[-1:] == ("--",):
        if not words:
            options.usage_error("-- needs a command after it")
        return _Program(words, None)
    if not words:
        options.usage_error("name a script, a module with -m, or a command after --")
    script = words[0]
    if not os.path.exists(script) and shutil.which(script):
        raise ConfigError(f"{script!r} is a command, not a Python script; write: rolltrace run -- {' '.join(words)}")
    return _Program([sys.executable, *words], Path(script).stem)


def _environment(options: Options, program: _Program) -> dict[str, str]:
    """The environment of the program: tracing on, and our folder where Python looks first.

    Raises:
        RolltraceError: a setting is wrong: said now, and not by the program in the middle of its output.
    """
    from rolltrace import backends
    from rolltrace.integrations import WAITS_FOR, variables_of_integrations
    from rolltrace.settings import Settings, variable_of

    environment = dict(os.environ)
    settings = {"project_name": options.project, "experiment_name": options.experiment, "store": options.store}
    environment.update({variable_of(name): value for name, value in settings.items() if value is not None})
    if program.name:
        environment.setdefault(variable_of("experiment_name"), program.name)
    if not environment.get(variable_of("backend")):
        environment[variable_of("backend")] = "rolltrace"
    environment.pop(WAITS_FOR, None)
    environment.update(variables_of_integrations())
    behind = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([str(_SITE), *([behind] if behind else [])])
    checked = Settings.gather({**settings, "backend": environment[variable_of("backend")]})
    if checked.backend is None:
        raise ConfigError(f"tracing is turned off by {variable_of('backend')}=off; unset it to use rolltrace run")
    backends.check(checked.backend)
    if not checked.quiet:
        environment.update(_summary())
    return environment


def _summary() -> dict[str, str]:
    """What `_site/sitecustomize.py` needs to have said at the end what was recorded."""
    from rolltrace.cli.run_summary import MODULES

    notes = os.path.join(tempfile.gettempdir(), f"rolltrace-run-{secrets.token_hex(8)}")
    parts = (str(os.getpid()), sys.executable, str(time.time_ns()), notes, *MODULES)
    return {} if any("," in each for each in parts) else {"_ROLLTRACE_SUMMARY": ",".join(parts)}
