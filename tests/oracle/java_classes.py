"""Java classes for queries that Python cannot express."""

import subprocess
from pathlib import Path

import pyspark

_SOURCES = Path(__file__).parent / "java"
_COMPILER_TIMEOUT_S = 300


def compile_classes(folder: Path) -> Path:
    """Compile the classes against Spark's jars and return their folder, for the driver's class path."""
    folder.mkdir(parents=True)
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    sources = map(str, _SOURCES.glob("*.java"))
    command = ["javac", "--release", "17", "-nowarn", "-proc:none", "-cp", str(jars), "-d", str(folder), *sources]
    subprocess.run(command, check=True, timeout=_COMPILER_TIMEOUT_S)
    return folder
