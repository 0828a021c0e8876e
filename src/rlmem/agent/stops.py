"""Why a target did not get as far as an update, told with the line that stopped it."""

import os
import traceback

from .state import OWN


class Stop(BaseException):
    """Raised by the agent itself: the target cannot be taken further."""

    def __init__(self, **facts):
        super().__init__(facts.get("message", ""))
        self.facts = dict(facts)
        self.facts.setdefault("where", None)


def describe(error, kind):
    """The error, and the innermost line of the user's own files that it came through."""
    if isinstance(error, SyntaxError):
        return {
            "kind": "syntax",
            "message": "%s: %s" % (type(error).__name__, error.msg),
            "where": "%s:%s" % (error.filename, error.lineno),
            "line": (error.text or "").strip(),
        }
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(OWN) and not frame.filename.startswith("<frozen")
    ]
    own = [frame for frame in frames if not _library(frame.filename)]
    chosen = (own or frames or [None])[-1]
    message = "%s: %s" % (type(error).__name__, error) if str(error) else type(error).__name__
    if isinstance(error, SystemExit):  # sys.exit("text") says why; a number does not
        message = error.code if isinstance(error.code, str) else "exit code %s" % (error.code or 0)
    return {
        "kind": kind,
        "code": error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else None,
        "by_library": bool(frames) and _library(frames[-1].filename),
        "message": message,
        "where": "%s:%d" % (chosen.filename, chosen.lineno) if chosen else None,
        "line": chosen.line if chosen else "",
    }


def _library(filename):
    parts = os.path.abspath(filename).replace("\\", "/").split("/")
    return "site-packages" in parts or "dist-packages" in parts or any(part.startswith("python3.") for part in parts)
