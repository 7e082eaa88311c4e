"""Authorization of HTTP requests by the cluster's secret, which is stored in ZooKeeper."""

import hmac
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from holdfast.api.connection_limits import AUTHORIZED

ReadSecret = Callable[[], str | None]


def authorization_error(request: Request, secret: ReadSecret) -> Response | None:
    """Return an error response, or None if the request carries the secret. Its connection is then kept for other requests."""
    expected = secret()
    if not expected:
        return PlainTextResponse("this node does not know the cluster's secret yet: try again", status_code=503)
    given = request.headers.get("authorization", "").encode()
    if hmac.compare_digest(given, f"Bearer {expected}".encode()):
        request.scope["state"][AUTHORIZED] = True
        return None
    return PlainTextResponse("the cluster's secret is missing or wrong", status_code=401)
