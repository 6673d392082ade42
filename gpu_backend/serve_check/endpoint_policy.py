"""Which server may be measured, and with which key.

The operator decides: loopback is allowed on the command line; every other host must be listed in
$BATCHSCOPE_ENDPOINTS (`host` or `host:port`, separated by commas). A page offers only the hosts of
that variable, since its browser may be on another machine. A key comes from
$BATCHSCOPE_ENDPOINT_KEY only; it is sent to the server and appears nowhere else.
"""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, urlsplit

__all__ = ["ENDPOINTS", "KEY", "Endpoint", "EndpointError", "endpoint_of", "named_hosts"]

ENDPOINTS = "BATCHSCOPE_ENDPOINTS"
KEY = "BATCHSCOPE_ENDPOINT_KEY"
Api = Literal["completions", "chat"]


class EndpointError(ValueError):
    """A server that may not or cannot be measured."""


@dataclass(frozen=True)
class Endpoint:
    """A server that may be measured. `base`: up to and with /v1; no key in it."""

    base: str
    api: Api
    key: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """The URL that requests are sent to."""
        return f"{self.base}/{'chat/completions' if self.api == 'chat' else 'completions'}"

    def without_key(self, text: str) -> str:
        """A message of the server, without the key that it may repeat."""
        return text.replace(self.key, "***") if self.key else text


def named_hosts(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The hosts that the operator names, as written."""
    names = environment.get(ENDPOINTS, "").split(",")
    return tuple(name.strip().lower() for name in names if name.strip())


def endpoint_of(
    url: str, *, environment: Mapping[str, str] = os.environ, loopback: bool = True
) -> Endpoint:
    """The server at `url`: its root, its /v1, or one of its two completion paths. EndpointError
    for another URL or one that is not allowed. loopback: this machine is allowed without being
    listed.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise EndpointError(f"not a URL: {error}") from None
    host = (parts.hostname or "").lower()
    if parts.scheme not in ("http", "https") or not host:
        raise EndpointError(f"found {shown(parts)!r}; an endpoint looks like http://localhost:8000")
    if parts.username is not None or parts.password is not None:
        raise EndpointError(f"no user or password in the URL; a key goes into ${KEY}")
    if parts.query or parts.fragment:
        raise EndpointError("no ? or # in the URL of an endpoint")
    port = port or (443 if parts.scheme == "https" else 80)
    hosts = named_hosts(environment)
    if not ((loopback and is_loopback(host)) or host in hosts or join(host, port) in hosts):
        raise EndpointError(refusal(host, port, hosts, loopback))
    path = parts.path.rstrip("/")
    api: Api = "chat" if path.endswith("/chat/completions") else "completions"
    for ending in ("/chat/completions", "/completions"):
        path = path.removesuffix(ending)
    return Endpoint(f"{parts.scheme}://{join(host, port)}{path or '/v1'}", api, key_of(environment))


def refusal(host: str, port: int, hosts: tuple[str, ...], loopback: bool) -> str:
    allowed = (["this machine (localhost)"] if loopback else []) + list(hosts)
    return (
        f"{join(host, port)} is not allowed; allowed: {', '.join(allowed) or 'none'}. "
        f"The operator lists others in ${ENDPOINTS}"
    )


def shown(parts: SplitResult) -> str:
    """A URL for an error message, without what may be a secret."""
    return f"{parts.scheme}://{parts.hostname or ''}" if parts.scheme else parts.path[:60]


def join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Names of this machine. No other name is resolved."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def key_of(environment: Mapping[str, str]) -> str | None:
    key = environment.get(KEY, "").strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise EndpointError(
            f"${KEY} contains characters that are not allowed in a key (its value is not shown)"
        )
    return key or None
