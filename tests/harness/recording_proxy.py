"""HTTP proxy on loopback that records the requests it receives and answers all of them with an error."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class RecordingProxy:
    url: str
    requests: list[str] = field(default_factory=list)
    """Request line and headers of each request."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables that make programs use this proxy."""
        return {name: self.url for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")}


@contextlib.contextmanager
def start_proxy() -> Iterator[RecordingProxy]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            proxy.requests.append(f"{self.requestline}\n{self.headers}")
            self.send_error(502)

        do_POST = do_CONNECT = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        proxy = RecordingProxy(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join(30)
