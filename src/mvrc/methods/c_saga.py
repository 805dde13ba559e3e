"""C-SAGA: SAGA with proximal steps."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from mvrc.estimators import Saga
from mvrc.estimators.saga import TABLES
from mvrc.methods.defaults import available_memory, dominant
from mvrc.methods.method import Method, finite
from mvrc.methods.recipe import About, NamedRecipe, Start, recipe, restart, size, step, word
from mvrc.oracle import Geometry
from mvrc.problem import Composition
from mvrc.sampling import Sizes
from mvrc.schemes import ProximalScheme
from mvrc.support import checks
from mvrc.theory import Constants


@recipe
class CSAGA(NamedRecipe):
    """`Saga` × `ProximalScheme`: x⁺ = prox_{ηr}(x − η zᵀ∇f(y)).

    Args:
        step_size: η; None: 1/(4L) with L estimated at x0.
        batch_size, outer_batch_size: ⌈n^(2/3)⌉ and ⌈N^(2/3)⌉ by default.
        period: steps of an epoch; one pass over the samples by default.
        table: "full", "points", or "auto" (full when it takes at most a quarter of the free
            memory).
        restart: "random" for gradient-dominated problems: an epoch is a run, which starts at a
            point drawn uniformly from the last one with a table of its own; or "never".

    Examples:
        >>> method = mvrc.CSAGA(step_size=0.2, batch_size=10)
        >>> round(mvrc.minimize(problem, x0, method, epochs=10).objective, 2)
        -0.08
    """

    about: ClassVar[About] = About(
        title="C-SAGA",
        reference="Zhang & Xiao, A Composite Randomized Incremental Gradient Method, 2019",
        problems="Σ¹ Σ²",
        regularizer="any with a prox",
        epoch="n once, then Sτ (full table) or 2Sτ (points)",
        memory="n·(p + p·d) (full), n·d (points); N·p more outside",
        complexity="Σ¹: n + n^(2/3) ε⁻²; Σ²: N + n + (N + n)^(2/3) ε⁻²; v-dominant Σ¹: "
        "(n + v n^(2/3)) log 1/ε",
    )

    step_size: float | None = step()
    batch_size: int | None = size()
    outer_batch_size: int | None = size()
    period: int | None = size()
    table: str = word("auto", ("auto", *TABLES))
    restart: str = restart()

    @classmethod
    def from_theory(
        cls,
        constants: Any,
        problem: Any = None,
        *,
        dominance: float | None = None,
        **options: Any,
    ) -> CSAGA:
        """η = 1/(L_F + √(L_F² + 48G)) with its paper's own G = 18 l_g⁴L_f² + 2 l_f²L_g².

        With F − F* ≤ (v/2)‖∇F‖² and r = 0 also s = ⌈n^(2/3)⌉ and runs of T = ⌈2v/η⌉ steps, each
        started at a point drawn uniformly from the last run, with a new table: every run halves
        E F − F*, so ⌈log₂(gap/δ)⌉ runs, epochs here, end at δ. (Σ E‖v − ∇F‖² ≤ 24Gη² Σ E‖v‖², as an
        entry of the table is renewed with a probability of at least s/(2n); 24Gη² + L_F η ≤ 1, and
        the descent inequality leaves E‖∇F‖² ≤ 2(F(x₀) − F*)/(ηT).)

        Args:
            constants: Lipschitz constants.
            problem: of which n is taken; with dominance only.
            dominance: v.
            options: other arguments of CSAGA.
        """
        checks.instance("constants", constants, Constants)
        values, jacobians = constants.l_g**2 * constants.L_f, constants.l_f * constants.L_g
        growth, smooth = 18 * values**2 + 2 * jacobians**2, constants.L_F
        eta = 1 / (smooth + math.sqrt(smooth**2 + 48 * growth))
        if dominance is None:
            if problem is not None:
                raise ValueError("problem needs dominance; leave it out.")
            return cls(step_size=eta, **options)
        v = dominant("dominance", dominance, problem)
        assert problem is not None
        n, _ = finite("C-SAGA", problem)
        sizes = {"batch_size": math.ceil(n ** (2 / 3)), "period": math.ceil(2 * v / eta)}
        return cls(step_size=eta, restart="random", **(sizes | options))

    def resolve(self, problem: Composition, geometry: Geometry, start: Start) -> Method:
        n, N = finite("C-SAGA", problem)
        checks.choice("restart of C-SAGA", self.restart, ("never", "random"))
        outer = math.ceil(N ** (2 / 3)) if problem.two_level else None
        batch = self.batch_size or math.ceil(n ** (2 / 3))
        return Method(
            Saga(self._table(n, N, batch, geometry), anew=self.restart == "random"),
            ProximalScheme(self.step_size or start.step_size(), restart=self.restart),
            Sizes(batch, None, self.outer_batch_size or outer),
            Sizes(),
            self.period,
            "c-saga",
        ).resolve(problem, geometry, start)

    def _table(self, n: int, N: int, batch: int, geometry: Geometry) -> str:
        """The table that fits, or a sentence with the numbers when none does."""
        p, d, item = geometry.y.size, geometry.x.size, geometry.x.dtype.itemsize
        entries = geometry.jacobian.entries
        need = {"full": n * (p + entries) * item, "points": n * d * item}
        need = {name: geometry.seeds * (table + N * p * item) for name, table in need.items()}
        free = available_memory()
        step = 2 * geometry.seeds * batch * entries * item  # at the new point and at the old ones
        if step > free:
            raise MemoryError(
                f"A step of C-SAGA holds the Jacobian of each of its samples: with batch_size = "
                f"{batch:,}, p = {p:,}, d = {d:,} they need {step / 2**30:.1f} GiB and "
                f"{free / 2**30:.1f} GiB are free; use a smaller batch_size or a method that needs "
                f"only their mean, such as 'mvrc' or 'vrsc-pg'."
            )
        table = self.table
        if table == "auto":
            table = "full" if need["full"] <= free / 4 else "points"
        # With a checkpoint an epoch reads the old table and writes a new one.
        if 2 * need[table] > free:
            raise MemoryError(
                f"C-SAGA's table {table!r} for n = {n:,}, p = {p:,}, d = {d:,} needs "
                f"{2 * need[table] / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free; use "
                f"table='points' ({2 * need['points'] / 2**30:.1f} GiB) or a method without a "
                f"table such as 'mvrc' or 'vrsc-pg'."
            )
        return table
