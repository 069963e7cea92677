"""Spark, asked as a team with a cluster would: workers in processes of their own, one session for all questions.

Data this small is not worth the code that Spark generates and compiles for each stage, nor the plans that it makes anew
between stages; and a JVM that lives for a minute spends it on its optimizing compiler. So these are off.
"""

from __future__ import annotations

import os
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
