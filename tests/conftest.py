"""Runtime checks of every annotated shape and dtype are on in all tests."""

from jaxtyping import install_import_hook

with install_import_hook("mvrc", "beartype.beartype"):
    import mvrc  # noqa: F401
