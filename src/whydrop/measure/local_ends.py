"""The addresses and interfaces by which packets leave this host, checked before a run."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Iterable, Mapping

from whydrop.errors import Mistake
from whydrop.measure.engine import EngineError
from whydrop.measure.plan import PlannedFlow

_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


class CannotLeaveError(EngineError, Mistake):
    """This host lacks the address or the interface that the user named; the message says which."""


def check(flows: Iterable[PlannedFlow], addresses: Mapping[str, str]) -> None:
    """Check that flows can leave this host from the address and by the interface that they name.

    Args:
        addresses: of far ends where these are others than their names.

    Raises:
        CannotLeaveError: this host has no such address or interface, or the far end is of another version of IP.
        EngineError: the kernel does not let this user bind to an interface.
    """
    asked = dict.fromkeys((flow.local_address, flow.interface, flow.host) for flow in flows)
    for local, interface, host in asked:
        if interface is not None:
            _check_interface(interface)
        if local is None:
            continue
        version = ipaddress.ip_address(local).version
        _check_address(local, interface)
        if host is not None and _is_of_another_version(addresses.get(host, host), version):
            raise CannotLeaveError(f"{host} has no IPv{version} address for packets from {local}")


def _check_address(local: str, interface: str | None) -> None:
    address = ipaddress.ip_address(local)
    with socket.socket(_FAMILIES[address.version], socket.SOCK_DGRAM) as one:
        try:
            if address.version == 6:
                scope = socket.if_nametoindex(interface) if address.is_link_local and interface else 0
                if address.is_link_local and not scope:
                    # The far end's address names its link, once that is known.
                    return
                one.bind((local, 0, 0, scope))
            else:
                one.bind((local, 0))
        except OSError as reason:
            if reason.errno == errno.EADDRNOTAVAIL:
                raise CannotLeaveError(f"this host has no address {local}; `ip address` lists those it has") from None
            raise CannotLeaveError(f"packets cannot leave from {local}: {reason.strerror}") from None


def _check_interface(name: str) -> None:
    names = [known for _, known in socket.if_nameindex()]
    if name not in names:
        raise CannotLeaveError(f"this host has no interface {name!r}; it has {', '.join(names)}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode() + b"\0")
        except PermissionError:
            raise EngineError(
                f"this kernel lets only root bind to an interface such as {name} (Linux 5.7 and newer let every user): "
                "give its address instead (--local-bind), or CAP_NET_RAW"
            ) from None
        except OSError as reason:
            raise EngineError(f"packets cannot leave by {name}: {reason.strerror}") from None


def _is_of_another_version(host: str, version: int) -> bool:
    """True if a host has addresses, and none of this version."""
    try:
        found = {family for family, *_ in socket.getaddrinfo(host, None, socket.AF_UNSPEC, socket.SOCK_DGRAM)}
    except OSError:
        # Connecting reports an unknown name.
        return False
    return _FAMILIES[version] not in found
