"""Spark, asked as a team with a cluster would: workers in processes of their own, one session for all questions.

Three things make it some ten times as fast here as with what it comes with, on views this deep and data this small:

- A view is planned anew for every question that names it, and so is a cached one. What several questions need is
  computed once and cut off from its plan (`localCheckpoint`).
- Code that is generated and compiled for each stage, and plans that are made anew between stages, cost more than the
  rows are worth.
- A JVM that lives for a minute spends it on its optimizing compiler.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

MASTER = "local-cluster[2,1,1024]"
"""Two workers, one core and 1 GiB each."""
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.sql.codegen.wholeStage": "false", "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",  # not 200: there are two cores
    "spark.driver.extraJavaOptions": _SHORT_LIVED, "spark.executor.extraJavaOptions": _SHORT_LIVED,
    "spark.driver.memory": "1g", "spark.executor.memory": "512m",
    "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
}  # fmt: skip
_CREATES = re.compile(r"CREATE OR REPLACE TEMPORARY VIEW (\w+)")
_NEEDED_BY_MANY = "_rows"


@contextmanager
def spark_session(master: str = MASTER) -> Iterator[Any]:
    """A session; the only one of this process."""
    from pyspark.sql import SparkSession

    with TemporaryDirectory() as home:  # workers write into the folder of Spark, which may be shared or read-only
        package = Path(find_spec("pyspark").origin).parent  # type: ignore[union-attr, arg-type]
        for name in ("bin", "jars"):
            (Path(home) / name).symlink_to(package / name)
        os.environ.update(SPARK_HOME=home, PYSPARK_PYTHON=sys.executable)
        session = SparkSession.builder.master(master).config(map=SETTINGS).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        try:
            yield session
        finally:
            session.stop()
            del os.environ["SPARK_HOME"]


def create_views(session: Any, statements: list[str], keep: tuple[str, ...] = ()) -> None:
    """Create the views; those to keep are computed once, now."""
    for statement in statements:
        session.sql(statement)
        name = _CREATES.match(statement)[1]  # type: ignore[index]
        if name in keep or name == _NEEDED_BY_MANY:
            session.table(name).localCheckpoint().createOrReplaceTempView(name)
