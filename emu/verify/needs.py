"""What a live comparison needs of the machine, and what of it is lacking."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys

PROBE = ["unshare", "-n", "-m", "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"]


def lacking() -> str | None:
    """One reason why no part can run; None if they can."""
    if not sys.platform.startswith("linux"):
        return "no Linux kernel"
    if os.geteuid() != 0:
        return "not root"
    if shutil.which("ip") is None:
        return "no ip command (package iproute2)"
    if not hasattr(socket, "AF_PACKET"):
        return "no packet sockets in this Python"
    return lacking_namespaces()


def lacking_namespaces() -> str | None:
    """Whether network and mount namespaces, and veth in them, can be had."""
    try:
        made = subprocess.run(
            PROBE,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no namespaces ({error})"
    if made.returncode == 0:
        return None
    said = made.stderr.strip().splitlines()
    return f"no veth in a namespace of its own ({said[-1] if said else 'no reason given'})"
