"""Unforeseen errors: the log has them whole, the page a reference to the log and nothing from inside."""

from __future__ import annotations

import logging
import secrets

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

_LOG = logging.getLogger("whydrop.web")


def answer(request: Request, reason: Exception) -> Response:
    """Log an unforeseen error with a short reference, and make the answer that names it."""
    reference = secrets.token_hex(4)
    # Paths come from outside: repr() keeps their line ends from making lines of the log.
    _LOG.error("Defect %s: %s %r", reference, request.method, request.url.path, exc_info=reason)
    return JSONResponse(
        {"error": f"whydrop has a defect here. The log of `whydrop web` has it under the reference {reference}."}, 500
    )
