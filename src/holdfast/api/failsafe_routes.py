"""Routes for failsafe promises: batches from other nodes, and single requests from runners of the previous release."""

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from holdfast.api.authorization import ReadSecret, authorization_error
from holdfast.errors import Conflict, Refused
from holdfast.model.identifiers import Attempt, JobId, NodeId, is_valid_name
from holdfast.node.failsafe.promises import FailsafePromises

BODY_BYTES_MAX = 4096
BATCH_BYTES_MAX = 4 * 1024 * 1024


def routes(promises: FailsafePromises, secret: ReadSecret, node: NodeId) -> list[Route]:
    """Return the routes of a node. Answers name the node, so that a caller detects that another node answers at its address."""

    async def grant(request: Request) -> Response:
        if (error_response := authorization_error(request, secret)) is not None:
            return error_response
        try:
            job, attempt, period_s = _parse_single(await _read_json(request, BODY_BYTES_MAX))
            await promises.grant(job, attempt, period_s)
        except Conflict as error:
            return PlainTextResponse(str(error), status_code=409)
        except Refused as error:
            return PlainTextResponse(str(error), status_code=400)
        return JSONResponse({"promised_s": period_s})

    async def grant_batch(request: Request) -> Response:
        if (error_response := authorization_error(request, secret)) is not None:
            return error_response
        try:
            attempts, period_s = _parse_batch(await _read_json(request, BATCH_BYTES_MAX))
        except Refused as error:
            return PlainTextResponse(str(error), status_code=400)
        return JSONResponse({"node": node, "refused": await promises.grant_all(attempts, period_s)})

    return [
        Route("/v1/promises", grant, methods=["POST"]),
        Route("/v1/promises/batch", grant_batch, methods=["POST"]),
    ]


async def _read_json(request: Request, bytes_max: int) -> Any:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise Refused(f"the request body is longer than {bytes_max} bytes")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise Refused("the request body is not JSON") from None


def _parse_single(fields: Any) -> tuple[JobId, Attempt, float]:
    try:
        job, attempt, period_s = str(fields["job"]), int(fields["attempt"]), float(fields["period_s"])
    except (ValueError, KeyError, TypeError, OverflowError):
        raise Refused("expected job, attempt and period_s") from None
    return _parse_job(job), Attempt(attempt), period_s


def _parse_batch(fields: Any) -> tuple[dict[JobId, Attempt], float]:
    try:
        period_s = float(fields["period_s"])
        pairs = [pair for pair in fields["attempts"] if isinstance(pair, list)]
        if len(pairs) != len(fields["attempts"]):
            raise ValueError
        attempts = {_parse_job(str(job)): Attempt(int(attempt)) for job, attempt in pairs}
    except (ValueError, KeyError, TypeError, OverflowError):
        raise Refused("expected period_s and attempts, a list of [job, attempt]") from None
    return attempts, period_s


def _parse_job(job: str) -> JobId:
    if not is_valid_name(job):
        raise Refused("'job' is not a valid job id")
    return JobId(job)
