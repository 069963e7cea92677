"""A training script as a user would write it: `python -m tests.integrations.tinker.training_run LOG POOL [first]`.

POOL is the number of worker processes, 0 for none. With `first`, rolltrace comes before anything of tinker-cookbook's.
"""

import asyncio
import logging
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

log, workers = sys.argv[1], int(sys.argv[2])

if __name__ == "__main__" and "first" in sys.argv:
    from rolltrace.integrations import tinker

    tinker.install()

from tinker_cookbook.rl import train  # noqa: E402

from .service import config  # noqa: E402

if __name__ == "__main__":
    if "after" in sys.argv:
        from rolltrace.integrations import tinker

        tinker.install()
    logging.disable(logging.INFO)
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) if workers else None
    asyncio.run(train.main(config(log), rollout_executor=pool))
