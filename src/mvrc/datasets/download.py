"""The download of an official zip of the Kenneth R. French data library into the user's cache."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path

from mvrc.datasets import files
from mvrc.datasets.french import BROKEN_ZIP, read_french
from mvrc.support import extras

BASE = "https://mba.tuck.dartmouth.edu/pages/faculty/ken.french/ftp/"
TIMEOUT = 10.0  # seconds without an answer: who is offline learns it soon


def fetch(wanted: files.Wanted, name: str, digits: str | None) -> Path:
    """The file `name` of the library, kept in the cache with its sha256 beside it.

    The library rewrites its files every month, so there is no fixed hash to compare with. Kept is
    only a whole zip file that reads as one of the library's; later reads compare with its hash.

    Args:
        wanted: who asks, for the messages.
        name: of the zip file.
        digits: a sha256 that the file must have, or None.
    """
    folder, url = files.cache_folder(), BASE + name
    if folder is None:
        raise files.missing(wanted, f", and downloads need pooch ({extras.install('data')})")
    import pooch

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            part = Path(scratch) / name
            pooch.HTTPDownloader(timeout=TIMEOUT, chunk_size=1 << 16)(url, str(part), None)
            if not _is_whole(part):
                raise files.missing(wanted, f", and {url} gave no complete file of returns")
            files.check_hash(part, digits, shown=url)
            # The hash first: a file in the cache then never lacks it.
            files.write_beside(folder / name, files.sha256(part))
            os.replace(part, folder / name)
    except FileNotFoundError:
        raise
    except OSError as error:  # those of requests too
        raise files.missing(wanted, f", and {url} cannot be downloaded ({_why(error)})") from error
    return folder / name


def _is_whole(file: Path) -> bool:
    try:
        with zipfile.ZipFile(file) as archive:
            whole = archive.testzip() is None
        return whole and len(read_french(file).values) > 0
    except (*BROKEN_ZIP, ValueError):
        return False


def _why(error: OSError) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return f"the server answered {status}" if status else type(error).__name__
