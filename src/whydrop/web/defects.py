"""Unforeseen errors: the log has them whole, the page a reference to the log and nothing from inside."""

from __future__ import annotations

import logging
import secrets

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

_LOG = logging.getLogger("whydrop.web")


def noted(reason: Exception, where: str) -> str:
    """Log an unforeseen error under a short reference; return the words that name it, for the user."""
    reference = secrets.token_hex(4)
    _LOG.error("Defect %s: %s", reference, where, exc_info=reason)
    return f"whydrop has a defect here. The log of `whydrop web` has it under the reference {reference}."


def answer(request: Request, reason: Exception) -> Response:
    """The answer to a request that met an unforeseen error."""
    # Paths come from outside: repr() keeps their line ends from making lines of the log.
    return JSONResponse({"error": noted(reason, f"{request.method} {request.url.path!r}")}, 500)
