"""`python -m mvrc.cli` is `mvrc`."""

from mvrc.cli import main

main()
