"""Files that a page sends: they are kept below one folder, under names that are made harmless."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import anyio
import anyio.to_thread

from whydrop.web.endpoints import RequestError

MOST_BYTES = 8 << 30
_LONGEST_NAME = 120


def harmless(name: str) -> str:
    """The last part of a file's name with letters, digits, dots, dashes and underlines only.

    >>> harmless("../../etc/passwd"), harmless("C:\\\\dir\\\\a b.pcap"), harmless(".."), harmless("x" * 500)[:3]
    ('passwd', 'a-b.pcap', 'file', 'xxx')
    """
    last = PureWindowsPath(PurePosixPath(name).name).name
    made = re.sub(r"[^\w.-]+", "-", last, flags=re.ASCII).strip(".-")
    # The end says what is in it.
    return made[-_LONGEST_NAME:].lstrip(".-") or "file"


async def keep(content: AsyncIterator[bytes], name: str, folder: Path, most_bytes: int = MOST_BYTES) -> Path:
    """Write a file as it comes; what is not whole is removed.

    Raises:
        RequestError: it is longer than allowed, or empty, or the disk is full.
    """
    target = folder / secrets.token_hex(4) / harmless(name)
    partial = target.with_name(f".{target.name}.part")
    await anyio.to_thread.run_sync(lambda: target.parent.mkdir(parents=True))
    size = 0
    try:
        async with await anyio.open_file(partial, "xb") as file:
            async for chunk in content:
                size += len(chunk)
                if size > most_bytes:
                    raise RequestError(f"the file is longer than {most_bytes} bytes", 413)
                await file.write(chunk)
        if not size:
            raise RequestError("the file is empty")
        await anyio.to_thread.run_sync(lambda: partial.rename(target))
    except OSError as reason:
        raise RequestError(f"the file could not be kept: {reason.strerror}", 507) from reason
    finally:
        if not target.exists():
            partial.unlink(missing_ok=True)
            target.parent.rmdir()
    return target
