"""The app: its commands, its own options, and errors as sentences."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import mvrc
from mvrc.cli import signals
from mvrc.cli.bench import bench
from mvrc.cli.launch import launch
from mvrc.cli.methods import methods
from mvrc.cli.report import report
from mvrc.cli.reproduce import reproduce
from mvrc.cli.solve import solve
from mvrc.cli.tune import tune


class Sentences(TyperGroup):
    """Commands whose errors are shown as one sentence on stderr, with exit code 2.

    The library's errors are sentences already. With `--debug` they come with their traceback.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            with signals.listening():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo(f"{signals.word()}.", err=True)
            raise typer.Exit(signals.code()) from None
        except BrokenPipeError:  # the reader of a pipe has gone; typer knows what to do
            raise
        except (ValueError, TypeError, OSError, ImportError) as error:
            if ctx.params.get("debug"):
                raise
            typer.echo(f"mvrc: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=Sentences,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for command in (solve, tune, methods, reproduce, report, bench):
    app.command()(command)
_passed_on = {"ignore_unknown_options": True, "allow_interspersed_args": False}
app.command(context_settings=_passed_on)(launch)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mvrc {mvrc.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show errors with a traceback.")] = False,
) -> None:
    """Minimise a function of an expectation, f(E g(x)) + r(x).

    Examples:

      mvrc solve portfolio.py --tol 1e-6 --output run
      mvrc methods civr
      mvrc reproduce
    """
