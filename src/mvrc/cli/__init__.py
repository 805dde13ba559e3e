"""The command `mvrc`; `app.py` lists its commands, one file each."""

from mvrc.cli.main import main as main
