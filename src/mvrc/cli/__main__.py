"""`python -m mvrc.cli` is `mvrc`."""

from mvrc.cli import main

if __name__ == "__main__":
    main()
