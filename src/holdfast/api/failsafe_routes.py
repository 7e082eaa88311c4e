"""Where runners ask for promises while ZooKeeper is away."""

import json

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from holdfast.api.authorization import Secret, refusal
from holdfast.errors import Conflict, Refused
from holdfast.model.identifiers import Attempt, JobId, is_name
from holdfast.node.failsafe import Promises

BODY_BYTES_MAX = 4096


def routes(promises: Promises, secret: Secret) -> list[Route]:
    async def promise(request: Request) -> Response:
        if (refused := refusal(request, secret)) is not None:
            return refused
        try:
            job, attempt, period_s = await _read(request)
            promises.promise(job, attempt, period_s)
        except Conflict as error:
            return PlainTextResponse(str(error), status_code=409)
        except Refused as error:
            return PlainTextResponse(str(error), status_code=400)
        return JSONResponse({"promised_s": period_s})

    return [Route("/v1/promises", promise, methods=["POST"])]


async def _read(request: Request) -> tuple[JobId, Attempt, float]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise Refused("too long")
    try:
        fields = json.loads(body)
        job, attempt, period_s = str(fields["job"]), int(fields["attempt"]), float(fields["period_s"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise Refused("expected job, attempt and period_s") from None
    if not is_name(job):
        raise Refused("that is not a job")
    return JobId(job), Attempt(attempt), period_s
