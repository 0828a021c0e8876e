"""A connection to Ray, and Ray's own errors as one line each."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rlmem.errors import AnalysisError, UsageError

EXTRA = "pip install 'rlmem[ray]'"
#: Ray itself waits for minutes for somebody to answer at an address (2.60: over four at a closed port).
PATIENCE_S = 5.0
#: What a client of HTTP/2 says first: the preface, and settings of which there are none.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_PLAIN = re.compile(r"^(?:ray://)?(?P<host>\[[^\]]+\]|[^:/]+):(?P<port>\d+)$")


def need_ray() -> Any:
    """The module, or an error that names the extra."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != "ray":
            raise AnalysisError(f"Ray is installed but cannot be imported: {error}") from None
        raise AnalysisError(f"Ray is not installed here: {EXTRA}") from None
    if not hasattr(ray, "init"):  # a folder called ray that Python takes for a package
        raise AnalysisError(f"Ray is not installed here: {EXTRA}")
    return ray


@contextmanager
def connected(address: str | None = None, *, own: Mapping[str, Any] | None = None, **settings: Any) -> Iterator[Any]:
    """The module, connected as ``ray.init(address)`` would; what was not connected before is not afterwards.

    ``None`` is what Ray makes of it: ``RAY_ADDRESS``, else a cluster of this machine, else one of its own that ends with us.
    ``own`` are settings for the last case, in which alone Ray takes them.
    """
    ray = need_ray()
    if ray.is_initialized():
        yield ray
        return
    found = _found(address)
    _knock(found)
    if found is None:
        settings = {**(own or {}), **settings}
    quiet = {"log_to_driver": False, "logging_level": "error", "configure_logging": False}
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, **{**quiet, **settings})
    except BaseException as error:
        ray.shutdown()
        if not isinstance(error, Exception):
            raise
        raise _explained(error, found) from None
    _mind_own_signals(before)
    try:
        yield ray
    finally:
        ray.shutdown()


def running(address: str | None) -> str:
    """The address of a cluster that is there: as given, ``RAY_ADDRESS``, or this machine's; none is started."""
    return address or os.environ.get("RAY_ADDRESS") or "auto"


def _found(address: str | None) -> str | None:
    """The address Ray will make of one; ``None`` where it will start a cluster of its own."""
    if address is not None and address not in {"auto", "local"}:
        return address
    try:
        from ray._private.services import canonicalize_bootstrap_address

        found = canonicalize_bootstrap_address(address)
    except (ImportError, AttributeError, ConnectionError, ValueError):  # Ray itself will say
        return os.environ.get("RAY_ADDRESS") or address
    return None if found is None else str(found)


def _mind_own_signals(before: Any) -> None:
    """Ray takes SIGTERM for itself (exit code 15, as if all were well); it is ours again."""
    if threading.current_thread() is threading.main_thread() and before is not None:
        signal.signal(signal.SIGTERM, before)


def answers(address: str) -> bool:
    """Whether somebody listens at ``host:port``; of another kind of address nothing is known, and that is a yes."""
    found = _PLAIN.match(address)
    if found is None:
        return True
    try:
        with socket.create_connection((found["host"].strip("[]"), int(found["port"])), timeout=PATIENCE_S):
            return True
    except OSError:
        return False


def _knock(address: str | None) -> None:
    """Whether somebody who speaks Ray's protocol listens at ``host:port``; other kinds of addresses are left to Ray."""
    found = _PLAIN.match(address or "")
    if found is None:
        return
    try:
        with socket.create_connection((found["host"].strip("[]"), int(found["port"])), timeout=PATIENCE_S) as line:
            if os.environ.get("RAY_USE_TLS", "0").lower() in {"", "0", "false"}:
                line.sendall(_GREETING)
                if line.recv(4)[3:] != b"\x04":  # a server of gRPC's begins with its settings too
                    raise OSError("what listens there is not Ray")
    except (OSError, OverflowError) as error:
        why = "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or error
        raise AnalysisError(
            f"Ray at {address} cannot be reached: {why}; check the address, and 'ray status' there"
        ) from None


def _explained(error: Exception, address: str | None) -> Exception:
    """One line for what went wrong with a connection."""
    text = " ".join(str(error).split())
    place = f"Ray at {address}" if address else "Ray"
    if _wants_token(error):
        return AnalysisError(
            f"{place} wants a token: set RAY_AUTH_MODE=token here, with the cluster's token where Ray looks for it "
            "(RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token)"
        )
    if "Version mismatch" in text or "version mismatch" in text.lower():
        return AnalysisError(f"{place}: {text[:300]}; use the cluster's versions of Ray and Python here")
    if isinstance(error, (ConnectionError, TimeoutError)) or "could not connect" in text.lower():
        return AnalysisError(f"{place} cannot be reached: {text[:200]}; check the address, and 'ray status' there")
    if isinstance(error, ValueError):
        return UsageError(f"{place}: {text[:300]}")
    return AnalysisError(f"{place}: {type(error).__name__}: {text[:300]}")


def _wants_token(error: BaseException | None) -> bool:
    """Whether it was for want of a token, which clusters of 'ray start' ask for (Ray 2.60); Ray says so beneath its error."""
    while error is not None:
        if type(error).__name__ == "AuthenticationError" or "InvalidAuthToken" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
