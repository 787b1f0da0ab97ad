"""For tests that press Ctrl-C."""

from __future__ import annotations

import signal


def hears_ctrl_c() -> None:
    """For ``preexec_fn``: a test run in a shell's background was told to ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
