"""`python -m agecli`."""

from agecli.cli import main

main()
