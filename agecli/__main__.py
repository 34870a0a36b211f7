"""`python -m agecli`, and the command `agecli`."""

import atexit
import os
import signal
import sys
import threading

INTERRUPTED = 130  # exit code; as in errors.Interrupted, which is not imported before a command needs it


def main() -> None:
    """The entry point: import the command line, and run it. Ctrl-C during the imports ends the process, silently."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # which would print a traceback
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from agecli.cli import main as run

    try:
        run()
    except SystemExit as end:
        if end.code == INTERRUPTED:  # Python resets handlers when it ends: a late signal would change the exit code
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
        _leave(end)
        raise


def _leave(end: SystemExit) -> None:
    """Exit at once, if nothing is left to do: Python frees its memory object by object, a tenth of the time of a photo."""
    others = any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())
    if others or "torch" in sys.modules or not isinstance(end.code, int | None):
        return
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # Python reports it
        return
    os._exit(end.code or 0)


if __name__ == "__main__":
    main()
