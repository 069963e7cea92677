"""A process that gives every trajectory of a store to MLflow, a few at a time; each line on stdout counts the batches.

python send_all.py STORE
"""

from __future__ import annotations

import os
import sys
from itertools import islice

import rolltrace
from rolltrace.backends.mlflow import MlflowBackend

store = rolltrace.open(sys.argv[1])
backend = MlflowBackend()
waiting = iter(store.trajectories().rows())
os.write(1, b"ready\n")
if sys.argv[2:] == ["together"]:
    sys.stdin.readline()
while batch := list(islice(waiting, 3)):
    refused = backend.send([store.trajectory(row["trajectory_id"]) for row in batch])
    assert not refused
    os.write(1, b"sent\n")
