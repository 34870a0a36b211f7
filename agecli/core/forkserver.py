"""The last module that the fork server of `agecli.core.parallel` imports: it unblocks SIGINT and SIGTERM.

They are blocked while the fork server imports modules, because Ctrl-C would print a traceback. From here on it ignores SIGINT,
and so do its child processes, until they set a handler. They inherit the signal mask, too, and must receive SIGTERM.
"""

from __future__ import annotations

import signal

from agecli.core.signals import unblock_signals

signal.signal(signal.SIGINT, signal.SIG_IGN)  # discards a pending SIGINT
unblock_signals()
