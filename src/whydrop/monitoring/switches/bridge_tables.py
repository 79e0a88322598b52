"""Finds the port of a switch behind which a MAC address was seen, in the bridge tables (RFC 4188, RFC 4363)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from whydrop.monitoring.switches import oids
from whydrop.monitoring.switches.config import Community, Switch
from whydrop.monitoring.switches.sessions import AskingError, SwitchSession

_AGED = "it is not in the bridge table: it is not on this switch, or has been silent for minutes"


def written(mac: str) -> str:
    """A MAC address as people write it.

    >>> written("001b213c9df8")
    '00:1b:21:3c:9d:f8'
    """
    return ":".join(textwrap.wrap(mac, 2))


def decimal(mac: str) -> str:
    """A MAC address as the end of an object identifier.

    >>> decimal("001b213c9df8")
    '0.27.33.60.157.248'
    """
    return ".".join(str(octet) for octet in bytes.fromhex(mac))


async def locate(switch: Switch, session: SwitchSession, macs: Iterable[str]) -> dict[str, int | str]:
    """For each MAC address the ifIndex of its port, or a sentence why there is none.

    Raises:
        AskingError: the switch does not answer.
    """
    wanted = {decimal(mac): mac for mac in macs}
    places: dict[str, int | str] = dict.fromkeys(wanted.values(), _AGED)
    await _by_filtering_databases(session, wanted, places)
    await _by_bridge(session, wanted, places)
    if _all_found(places):
        return places
    vlans = await _cisco_vlans(session)
    if vlans and not isinstance(switch.account, Community):
        hint = (
            "; this switch has a table for each VLAN, which SNMP v3 reads by contexts, which are not supported: use v2c"
        )
        return {mac: place + hint if isinstance(place, str) else place for mac, place in places.items()}
    await _by_vlans(session, vlans, wanted, places)
    return places


async def _by_filtering_databases(session: SwitchSession, wanted: dict[str, str], places: dict[str, int | str]) -> None:
    """dot1qTpFdbPort, in each filtering database (ProCurve, Juniper and most others)."""
    databases = [database for database, _ in await session.walk(oids.FDB_COUNT)]
    if databases:
        keys = {f"{oids.Q_FDB_PORT}.{fdb}.{end}": mac for fdb in databases for end, mac in wanted.items()}
        answer = await session.get(list(keys))
        ports = {
            keys[oid]: port for oid, port in answer.values.items() if oid in keys and isinstance(port, int) and port
        }
    else:
        # Some agents have the table and not the list of its parts: then the whole table is read.
        rows = await session.walk(oids.Q_FDB_PORT)
        ends = ((place.partition(".")[2], port) for place, port in rows)
        ports = {wanted[end]: port for end, port in ends if end in wanted and isinstance(port, int) and port}
    await _indexes(session, ports, places)


async def _by_bridge(session: SwitchSession, wanted: dict[str, str], places: dict[str, int | str]) -> None:
    """dot1dTpFdbPort, the one table of a simple bridge, or of one VLAN."""
    keys = {f"{oids.D_FDB_PORT}.{end}": mac for end, mac in wanted.items() if not isinstance(places[mac], int)}
    if keys:
        answer = await session.get(list(keys))
        found = {keys[oid]: port for oid, port in answer.values.items() if oid in keys}
        await _indexes(session, {mac: port for mac, port in found.items() if isinstance(port, int) and port}, places)


async def _by_vlans(
    session: SwitchSession, vlans: Iterable[str], wanted: dict[str, str], places: dict[str, int | str]
) -> None:
    """dot1dTpFdbPort of each VLAN: a Cisco switch has a community for each."""
    for vlan in vlans:
        if _all_found(places):
            return
        in_vlan = session.beside(f"@{vlan}")
        try:
            await _by_bridge(in_vlan, wanted, places)
        except AskingError:
            # Inactive VLANs do not answer.
            continue
        finally:
            in_vlan.close()


async def _cisco_vlans(session: SwitchSession) -> list[str]:
    """Numbers of VLANs from Cisco's table, if the switch has it; 1002 to 1005 are no Ethernet."""
    rows = await session.walk(oids.CISCO_VLANS)
    numbers = (place.rpartition(".")[2] for place, _ in rows)
    return [number for number in numbers if number.isdecimal() and not 1002 <= int(number) <= 1005]


async def _indexes(session: SwitchSession, ports: dict[str, int], places: dict[str, int | str]) -> None:
    """Translate numbers of bridge ports into ifIndexes, by dot1dBasePortIfIndex."""
    if not ports:
        return
    keys = {mac: f"{oids.BASE_PORT_IF_INDEX}.{port}" for mac, port in ports.items()}
    answer = await session.get(sorted(set(keys.values())))
    for mac, key in keys.items():
        index = answer.values.get(key)
        if isinstance(index, int) and index > 0:
            places[mac] = index
        elif not isinstance(places[mac], int):
            places[mac] = f"it is behind bridge port {ports[mac]}, for which the switch has no ifIndex"


def _all_found(places: dict[str, int | str]) -> bool:
    return all(isinstance(place, int) for place in places.values())
