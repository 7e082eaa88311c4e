"""Route for failsafe promises, which runners request while ZooKeeper is unreachable."""

import json

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from holdfast.api.authorization import ReadSecret, authorization_error
from holdfast.errors import Conflict, Refused
from holdfast.model.identifiers import Attempt, JobId, is_valid_name
from holdfast.node.failsafe import FailsafePromises

BODY_BYTES_MAX = 4096


def routes(promises: FailsafePromises, secret: ReadSecret) -> list[Route]:
    async def promise(request: Request) -> Response:
        if (error_response := authorization_error(request, secret)) is not None:
            return error_response
        try:
            job, attempt, period_s = await _parse_request(request)
            promises.grant(job, attempt, period_s)
        except Conflict as error:
            return PlainTextResponse(str(error), status_code=409)
        except Refused as error:
            return PlainTextResponse(str(error), status_code=400)
        return JSONResponse({"promised_s": period_s})

    return [Route("/v1/promises", promise, methods=["POST"])]


async def _parse_request(request: Request) -> tuple[JobId, Attempt, float]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise Refused(f"the request body is longer than {BODY_BYTES_MAX} bytes")
    try:
        fields = json.loads(body)
        job, attempt, period_s = str(fields["job"]), int(fields["attempt"]), float(fields["period_s"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise Refused("expected job, attempt and period_s") from None
    if not is_valid_name(job):
        raise Refused("'job' is not a valid job id")
    return JobId(job), Attempt(attempt), period_s
