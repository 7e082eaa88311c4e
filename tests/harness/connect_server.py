"""Spark Connect server in a process of its own, from PySpark's jars."""

import contextlib
import os
import socket
import subprocess
from pathlib import Path

from holdfast.zk.embedded.java import find_jars, find_java
from holdfast.zk.embedded.ports import LOOPBACK, Ports
from tests.harness.waiting import wait_until

READY_TIMEOUT_S = 170.0
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_CONF = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.connect.grpc.binding.address": LOOPBACK,
}


class ConnectServer:
    """Context manager: a server that is ready, on a free port."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._port = Ports.pick().client
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"sc://{LOOPBACK}:{self._port}"

    def __enter__(self) -> "ConnectServer":
        jars = find_jars()
        properties = {**_CONF, "spark.connect.grpc.binding.port": str(self._port)}
        command = [
            str(find_java()),
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-XX:+IgnoreUnrecognizedVMOptions",
        ]
        command += ["--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"]
        command += [f"-D{key}={value}" for key, value in properties.items()]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "-cp", f"{jars}/*", _SERVER],
                cwd=self._directory,
                env={**os.environ, "SPARK_HOME": str(jars.parent), "SPARK_LOCAL_IP": LOOPBACK},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._is_ready, READY_TIMEOUT_S, "the Connect server is ready")
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def log(self) -> str:
        return (self._directory / "log").read_text(errors="replace")

    def _is_ready(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self.log()[-3000:]
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self._port), 1.0):
            return True
        return False
