"""The last module that the fork server of `agecli.core.parallel` imports: it unblocks SIGINT and SIGTERM.

They are blocked while the fork server imports modules, because Ctrl-C would print a traceback. Later it ignores SIGINT.
Its child processes inherit the signal mask, and those that other libraries start must receive SIGTERM.
"""

from __future__ import annotations

import signal

from agecli.core.signals import unblock_signals

_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # discards a pending SIGINT
unblock_signals()
signal.signal(signal.SIGINT, _handler)
