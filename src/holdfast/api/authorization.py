"""Who may ask a node for more than how it is: whoever knows the cluster's secret, which stands in its ZooKeeper."""

import hmac
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

Secret = Callable[[], str | None]


def refusal(request: Request, secret: Secret) -> Response | None:
    """None if the request carries the secret."""
    known = secret()
    if not known:
        return PlainTextResponse("this node does not know the cluster's secret yet: try again", status_code=503)
    given = request.headers.get("authorization", "").encode()
    if hmac.compare_digest(given, f"Bearer {known}".encode()):
        return None
    return PlainTextResponse("the cluster's secret is missing or wrong", status_code=401)
