"""`python -m agecli`."""

from agecli.cli import main

if __name__ == "__main__":
    main()
