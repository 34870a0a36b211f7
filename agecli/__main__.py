"""`python -m agecli`, and the command `agecli`."""

import signal


def main() -> None:
    """The entry point: import the command line, and run it. Ctrl-C during the imports ends the process, silently."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # which would print a traceback
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from agecli.cli import main as run

    run()


if __name__ == "__main__":
    main()
