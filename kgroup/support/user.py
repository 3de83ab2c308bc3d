"""Who runs kgroup."""

from __future__ import annotations

import getpass
import os
import socket


def whoami() -> str:
    """``maria@jump-1``; the user id for a user without a name, as in a pod."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
