"""HTTP requests to the nodes of a cluster. They never go through a proxy, because they carry the cluster's secret.

urllib uses the proxies of the environment (`http_proxy`) by default. Call `open_url` instead of `urllib.request.urlopen`.
"""

import urllib.request
from http.client import HTTPResponse

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def open_url(request: urllib.request.Request | str, *, timeout_s: float) -> HTTPResponse:
    """Send the request directly to its host. Raises OSError, ValueError, and `urllib.error.HTTPError` for an error response."""
    response = _opener.open(request, timeout=timeout_s)
    assert isinstance(response, HTTPResponse)
    return response
