"""`python -m rolltrace.keeper STORE [--once]`: what `_launch` starts."""

import sys
from pathlib import Path

from rolltrace.keeper.clean_output import clean_output
from rolltrace.keeper.process import collect_rarely, run, run_once

clean_output(Path(sys.argv[1]))
collect_rarely()
sys.exit(run_once(Path(sys.argv[1])) if "--once" in sys.argv else run(Path(sys.argv[1])))
