"""Real S3 server (moto) in a subprocess. Tests access it with plain HTTP to see the stored objects."""

import re
import subprocess
import sys
import urllib.error
import urllib.request
from typing import ClassVar, Self

_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()  # exits when the parent closes the pipe or exits
"""
_PREFIX = "pre/fix"
_CREDENTIAL = "tester/20260101/us-east-1/s3/aws4_request"
_HEADERS = {
    # The server reads the signer's name and does not verify the signature.
    "Authorization": f"AWS4-HMAC-SHA256 Credential={_CREDENTIAL}, SignedHeaders=host, Signature=0",
    "Content-Type": "application/octet-stream",  # the server would parse any other type as a form
}


class S3Server:
    environment: ClassVar = {
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": "test-secret",
        "AWS_EC2_METADATA_DISABLED": "true",
    }

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def create_bucket(self, name: str) -> "Bucket":
        bucket = Bucket(self, name)
        bucket.request("PUT", "")
        return bucket


class Bucket:
    def __init__(self, server: S3Server, name: str) -> None:
        self.name = name
        self._url = f"http://127.0.0.1:{server.port}/{name}"
        self.location = f"s3://{name}/{_PREFIX}?endpoint_override=127.0.0.1:{server.port}&scheme=http"

    def request(self, method: str, key: str, data: bytes = b"") -> bytes:
        request = urllib.request.Request(
            f"{self._url}/{key}", data=data if method == "PUT" else None, method=method, headers=_HEADERS
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())

    def put(self, name: str, data: bytes) -> None:
        self.request("PUT", f"{_PREFIX}/{name}", data)

    def get(self, name: str) -> bytes | None:
        try:
            return self.request("GET", f"{_PREFIX}/{name}")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def list_names(self, folder: str) -> list[str]:
        """Return the names of the objects in a folder, without the folder's own marker object."""
        prefix = f"{_PREFIX}/{folder}/"
        found = re.findall(rb"<Key>([^<]*)</Key>", self.request("GET", f"?list-type=2&prefix={prefix}"))
        return sorted(key.decode().removeprefix(prefix) for key in found if key.decode() != prefix)

    def count_unfinished_uploads(self) -> int:
        return self.request("GET", "?uploads").count(b"<UploadId>")
