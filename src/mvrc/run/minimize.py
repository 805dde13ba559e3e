"""minimize and minimize_many: what a user calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from mvrc.problem import Composition
from mvrc.run.arguments import Info
from mvrc.run.loop import Run
from mvrc.run.stopping import Stop
from mvrc.solvers.result import Result
from mvrc.support import checks


@checks.explain_keywords
def minimize(
    problem: Composition,
    x0: Any,
    method: Any = None,
    *,
    epochs: int | None = None,
    samples: int | None = None,
    seconds: float | None = None,
    tol: float | None = None,
    rtol: float | None = None,
    seed: int = 0,
    record_every: int = 1,
    mapping_step: float | None = None,
    measure_samples: int | None = None,
    output: str = "last",
    callback: Callable[[Info], Any] | None = None,
    progress: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_every: int | None = None,
    resume: Result | None = None,
) -> Result:
    """Minimise f(E g(x)) + r(x) from x0.

    The run stops at whichever limit comes first, between two epochs. After Ctrl-C it returns what
    it has. A run that diverges at its default step starts again at a quarter of it, a few times at
    most; at a step size that was given it returns the best point it recorded.

    Args:
        problem: the composition.
        x0: start, an array or pytree; its dtype is that of the iterates.
        method: a recipe such as `MVRC(step_size=1e-3)`, a name of `mvrc.METHODS`, or None for
            `Auto`, which chooses everything and stops by itself.
        epochs: limit on epochs since the last start; when no limit at all is given 1000 for `Auto`,
            100 for others.
        samples: limit on evaluations of g (the column `inner_values`).
        seconds: limit on the wall-clock time after compilation: algorithm, measuring, callbacks and
            saves (the column `wall_seconds`). One epoch is made however long it takes; another is
            begun only if the run, at its pace so far, would then end less than 10 % beyond the
            limit.
        tol: stop when the norm of the gradient mapping, at a recorded epoch, is at most this.
        rtol: likewise, at most this fraction of its value at x0.
        seed: the source of all randomness of the run.
        record_every: epochs between two rows of the history; the first and the last are always
            made.
        mapping_step: λ of the gradient mapping 𝒢_λ that is measured; the method's own step size
            by default. One number makes methods with different steps comparable.
        measure_samples: inner and outer samples that rows and result are measured on, at most: a
            fixed part spread over all, for problems where a full pass is expensive. All by
            default; `Auto` on finite sums knows exact rows without measuring and keeps them.
        output: "last" iterate, "random" (z_ζ, uniform over all steps, as in the theorems; with
            random restarts over those of the last run) or "best" (lowest recorded objective).
        callback: called with an `Info` after each recorded epoch; a true value stops the run.
        progress: show a progress bar (needs rich).
        checkpoint: folder in which the whole state is saved; a second call with the same
            arguments continues from it, bit for bit.
        checkpoint_every: epochs between two saves; by default as many as are made in a second.
        resume: a result of such a run (or one that was saved and loaded), from which the run
            continues as if it had not stopped; limits count from its beginning. Data, seed and the
            kind of method must be the same; a step size may be another from here on.

    Examples:
        >>> result = mvrc.minimize(problem, x0)
        >>> result.status.name, round(result.objective, 4)
        ('CONVERGED', -0.0825)
    """
    run = Run(
        problem, x0, method, [checks.seed("seed", seed)], None,
        Stop.checked(epochs, samples, seconds, tol, rtol),
        record_every, mapping_step, measure_samples, output, callback, progress, checkpoint,
        checkpoint_every, resume,
    )  # fmt: skip
    return run.solve()[0]


@checks.explain_keywords
def minimize_many(
    problem: Composition,
    x0: Any,
    method: Any = None,
    *,
    seeds: int | Sequence[int] = 10,
    epochs: int | None = None,
    samples: int | None = None,
    seconds: float | None = None,
    tol: float | None = None,
    rtol: float | None = None,
    record_every: int = 1,
    mapping_step: float | None = None,
    measure_samples: int | None = None,
    output: str = "last",
    progress: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_every: int | None = None,
) -> list[Result]:
    """The same run for many seeds, one `Result` per seed.

    Epochs of a named method are one vmapped program for all seeds. `Auto`'s Newton and secant steps
    draw nothing, so all its results are one; its steps that do draw go through the seeds in turn.

    Args:
        seeds: how many (0, 1, …) or which.
        tol, rtol: in one program the runs stop together, when all have reached one of them.
        samples: limit for each seed.
        seconds: limit for all seeds together; so are the columns `seconds` and `wall_seconds` of
            runs in one program.

    The other arguments are those of `minimize`.

    Examples:
        >>> runs = mvrc.minimize_many(problem, x0, mvrc.SCGD(step_size=0.5), seeds=3, epochs=2)
        >>> len({run.objective for run in runs})  # another seed, other samples
        3
    """
    if isinstance(seeds, Iterable) and not isinstance(seeds, str):
        chosen = [checks.seed("seeds", seed) for seed in seeds]
    else:
        chosen = list(range(checks.integer("seeds", seeds)))
    if not chosen:
        raise ValueError("seeds is empty; give how many or at least one.")
    shared = record_every, mapping_step, measure_samples, output, None, progress
    stop = Stop.checked(epochs, samples, seconds, tol, rtol)
    run = Run(problem, x0, method, chosen, len(chosen), stop, *shared, checkpoint, checkpoint_every)
    if not run.setup.one_by_one or run.setup.copies is not None:
        return run.solve()
    results = []
    for seed in chosen:  # a solver on the host, which draws
        share = None if stop.seconds is None else stop.seconds / len(chosen)
        folder = None if checkpoint is None else Path(checkpoint) / f"seed {seed}"
        own = Stop.checked(epochs, samples, share, tol, rtol)
        run = Run(problem, x0, method, [seed], None, own, *shared, folder, checkpoint_every)
        results += run.solve()
    return results
