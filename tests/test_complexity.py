"""The family with known constants, in NumPy, and exponents of small sweeps."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import mvrc
from mvrc.experiments.complexity import fit, measure, plan, search
from mvrc.experiments.complexity.family import RADIUS, Knobs, known, least_dominance
from mvrc.report import page

CASES = (
    Knobs("flat", n=12, noise=0.7, a=0.5),
    Knobs("flat", noise=0.3, a=1.0),
    Knobs("flat", n=12, N=10, two_level=True, noise=1.0, outer_noise=0.5, a=0.1),
    Knobs("flat", two_level=True, noise=0.5, outer_noise=0.2),
    Knobs("dominant", n=9, noise=1.0, v=30.0),
    Knobs("dominant", n=9, N=8, two_level=True, noise=0.4, outer_noise=0.3, v=7.0),
)
GRID = 24  # phases and points along each coordinate, at which the constants are nearly attained


class Twin:
    """The formulas of family.py again, in NumPy and float64, for one x and one phase."""

    def __init__(self, knobs):
        self.k = knobs

    def inner(self, x, p):
        c = self.k.noise * np.cos(x + p)
        return np.array([x[0] + c[0], x[1] + c[1], c[0] + c[1]])

    def jacobian(self, x, p):
        s = -self.k.noise * np.sin(x + p)
        return np.array([[1 + s[0], 0], [0, 1 + s[1]], [s[0], s[1]]])

    def shape(self, y):
        k = self.k
        if k.shape == "flat":
            return (1 + y[0] ** 2) ** (-k.a / 2) / k.a + np.sqrt(1 + y[1] ** 2) - 1
        h = y[:2] ** 2 / 2 + 0.75 * np.sin(y[:2]) ** 2
        return (least_dominance() / k.v * h[0] + h[1]) / 2.5

    def slope(self, y, q=None):
        """∇f, or ∇f_q."""
        k = self.k
        if k.shape == "flat":
            g = [-y[0] * (1 + y[0] ** 2) ** (-k.a / 2 - 1), y[1] / np.sqrt(1 + y[1] ** 2)]
        else:
            h = y[:2] + 0.75 * np.sin(2 * y[:2])
            g = [least_dominance() / k.v * h[0] / 2.5, h[1] / 2.5]
        g = np.array([*g, 1.0])
        if q is not None:
            g[:2] -= k.outer_noise * np.sin(y[:2] + q)
        return g


def phases_of(made, twin):
    """The samples of a finite sum; online all pairs of equally spaced phases."""
    if made.knobs.n is not None:
        return np.asarray(made.problem.inner_source.everything().samples())
    spaced = 2 * np.pi * (np.arange(GRID) + 0.5) / GRID
    return np.array([[a, b] for a in spaced for b in spaced])


@pytest.mark.parametrize("knobs", CASES, ids=str)
def test_constants_hold_and_are_nearly_attained(knobs):
    """Each is an upper bound at all points tried, and not above the largest found by 15 %."""
    made, twin, rng = known(knobs), Twin(knobs), np.random.default_rng(0)
    c = made.constants
    width = RADIUS if knobs.shape == "dominant" else 4.0
    points = rng.uniform(-width, width, (60, 2))
    spaced = np.linspace(0, 2 * np.pi, GRID, endpoint=False)
    pairs = np.array([[a, b] for a in spaced for b in spaced])
    found = dict.fromkeys(("l_f", "L_f", "l_g", "L_g"), 0.0)
    line = np.linspace(-width, width, 301)
    outer = pairs[::3] if knobs.two_level else [None]
    for q in outer:
        along = np.array([twin.slope(np.array([z, z, 0.0]), q) for z in line])
        found["l_f"] = max(found["l_f"], np.linalg.norm(along, axis=1).max())
        turned = np.linalg.norm(np.diff(along, axis=0)[:, 1:2], axis=1) / (line[1] - line[0])
        found["L_f"] = max(found["L_f"], turned.max())
    for p in pairs:
        jacobian = twin.jacobian(np.zeros(2), p)
        found["l_g"] = max(found["l_g"], np.linalg.norm(jacobian, 2))
        near = twin.jacobian(np.full(2, 1e-4), p) - jacobian
        found["L_g"] = max(found["L_g"], np.linalg.norm(near) / (1e-4 * np.sqrt(2)))
    for name, value in found.items():
        assert value <= getattr(c, name) * (1 + 1e-6), name
        assert value >= getattr(c, name) * 0.85, name
    samples = phases_of(made, twin)
    for x in points[:5]:
        values = np.array([twin.inner(x, p) for p in samples])
        np.testing.assert_allclose(values.mean(0), [*x, 0.0], atol=1e-12)  # F has no noise
        if knobs.n is None:
            jacobians = np.array([twin.jacobian(x, p).ravel() for p in samples])
            for rows, sigma in ((values, c.sigma_g), (jacobians, c.sigma_dg)):
                assert rows.var(0).sum() == pytest.approx(sigma**2, rel=1e-9)
    if knobs.two_level:
        slopes = np.array([twin.slope(np.array([0.3, -1.0, 0.2]), q) for q in pairs])
        assert slopes.var(0).sum() == pytest.approx(c.sigma_df**2, rel=1e-9)


@pytest.mark.parametrize("knobs", CASES, ids=str)
def test_the_problem_is_its_closed_form(knobs):
    """Φ, ∇F and 𝒢 of the library are those in closed form, and those of the twin."""
    knobs = dataclasses.replace(knobs, l1=0.05)
    made, twin = known(knobs), Twin(knobs)
    x = np.array([0.7, -1.3])
    assert float(made.value(x)) == pytest.approx(twin.shape(x) + 0.1, rel=1e-6)  # float32 outside
    gradient = twin.slope(x)[:2]
    moved = x - 0.5 * gradient
    moved = np.sign(moved) * np.maximum(np.abs(moved) - 0.025, 0)
    expected = np.linalg.norm(x - moved) / 0.5
    assert float(made.mapping(x, 0.5)) == pytest.approx(expected, rel=1e-5)
    if knobs.n is not None:
        assert made.problem.objective(x) == pytest.approx(twin.shape(x) + 0.1, rel=1e-12)
        row = mvrc.minimize(made.problem, x, mvrc.ProximalGradient(0.5), epochs=1).history
        assert row["gradient_mapping"][0] == pytest.approx(expected, rel=1e-12)


def test_dominance_is_known():
    """F − F* ≤ (v/2)‖∇F‖² up to RADIUS, attained to 1 %, and F is not convex."""
    for v in (least_dominance(), 50.0):
        knobs = Knobs("dominant", n=8, v=v)
        twin = Twin(knobs)
        line = np.linspace(1e-3, RADIUS, 2000)
        sup = 0.0
        for along in (np.array([1.0, 0]), np.array([0, 1.0]), np.array([1.0, 1.0])):
            for z in line:
                y = np.array([*(z * along), 0.0])
                slope = twin.slope(y)[:2]
                sup = max(sup, 2 * twin.shape(y) / (slope @ slope))
        assert 0.99 * v <= sup <= v * (1 + 1e-6)
    z = np.array([1.4, 1.5, 1.6])  # h'' = 1 + 1.5 cos 2z < 0
    values = [twin.shape(np.array([0, one])) for one in z]
    assert values[1] > (values[0] + values[2]) / 2
    with pytest.raises(ValueError, match="v must be at least"):
        known(Knobs("dominant", n=8, v=1.0))


def test_exponents_and_their_intervals():
    at = np.array([10.0, 100.0, 1000.0])
    exact = fit.exponent(at, 3 * at[:, None] ** 0.5 * np.ones(4))
    assert exact.value == pytest.approx(0.5) and exact.half == pytest.approx(0, abs=1e-12)
    # Of a mean the jackknife's error is s/√k, as usual; Student's t with two degrees of freedom.
    numbers = np.array([0.4, 0.5, 0.6])
    without = (numbers.sum() - numbers) / 2
    one = fit.jackknife(np.array([numbers.mean(), *without]))
    assert one.half == pytest.approx(4.303 * 0.1 / np.sqrt(3))
    assert fit.exponent(at, np.array([[1.0], [np.inf], [1.0]])).text() == "–"


def test_the_search_ends_where_no_move_is_cheaper():
    def cost(choice, most):
        value = 10.0 + (choice[0] - 5) ** 2 + (choice[1] + 3) ** 2
        return value if choice[0] < 7 and value <= most else np.inf

    found, tried = search.climb(cost, (9, 0), 1e9, [(1, 0), (0, 1)])
    assert found == (5, -3) and len({c for c, _ in tried}) == len(tried)


def test_one_exponent_from_scratch():
    """Samples to ‖𝒢‖ ≤ ε on the flat valley grow like ε^(−(a+2)/(a+1)): NumPy and the library."""
    a, eta, levels = 1.0, 0.9, np.array([0.004, 0.002, 0.001])
    x, reached = 1.0, []
    step = 0
    for level in levels:
        while x * (1 + x * x) ** (-a / 2 - 1) > level:
            x += eta * x * (1 + x * x) ** (-a / 2 - 1)
            step += 1
        reached.append(step)
    direct = fit.exponent(1 / levels, np.array(reached)[:, None])
    assert direct.value == pytest.approx((a + 2) / (a + 1), abs=0.02)
    sweep = plan.load()["sum1-epsilon"][1]
    small = dataclasses.replace(
        sweep, problem=dataclasses.replace(sweep.problem, n=64, noise=0.3), values=tuple(levels),
        tune_at=0.002, seeds=3,
    )  # fmt: skip
    record = measure.measure(small, "civr")
    samples = np.array([point["samples"] for point in record["points"]], float)
    measured = fit.exponent(1 / levels, samples)
    assert measured.value == pytest.approx(1.5, abs=0.1)


def test_runs_are_kept_and_shown(tmp_path, monkeypatch):
    """A plan goes on where it stopped; the page shows its runs, and says whose they are."""
    asked = []

    def measured(job):
        asked.append(job.name)
        points = [{"at": float(n), "level": 0.1, "samples": [n**0.5] * 4, "steps": 9,
                   "farthest": 1.0} for n in (16, 64, 256)]  # fmt: skip
        return {"kind": "sweeps", "id": job.spec.id, "method": job.method, "power": 1,
                "spec": dataclasses.asdict(job.spec), "points": points, "cpu_seconds": 1.0,
                "made_with": {"mvrc": "0", "jax": "0", "machine": "none"}}  # fmt: skip

    monkeypatch.setattr(plan.Job, "measured", measured)
    jobs = plan.plan(["sum1-n"], False)
    told = []
    plan.run(jobs[:2], tmp_path, lambda job, done: told.append(done))
    plan.run(jobs, tmp_path, lambda job, done: told.append(done))
    assert told == [False, False, True, True, False, False, False] and len(asked) == len(jobs)
    written = page.write(tmp_path)  # without the paper's experiments
    text = written["page"].read_text("utf-8")
    assert "Run here: 5 runs" in text and "mvrc reproduce --only sum1-n" in text
    assert "0.50 ± 0.00" in text and written["complexity"].exists()
    found = {c["sentence"]: c["assessment"] for c in json.loads(written["claims"].read_text())}
    assert found["Σ¹: samples grow like √n (n + √n ε⁻², T ≫ √n)"] == "holds"
    assert found["Σ¹: samples of C-SAGA grow like n^⅔"] == "does not hold"


def test_plans():
    """The short version is a part of all; names are those of the tables."""
    whole, short = plan.plan(["complexity"], False), plan.plan(["complexity"], True)
    assert {job.spec.id for job in short} < {job.spec.id for job in whole}
    assert len({job.key for job in (*whole, *short)}) == len(whole) + len(short)
    with pytest.raises(ValueError, match="only must be"):
        plan.plan(["complexities"], False)


def test_what_comes_with_the_library_is_of_its_plan():
    """The recorded runs are those that the library's own file plans."""
    names = {(job.spec.id, job.method) for job in plan.plan(["complexity"], False)}
    shipped = plan.shipped()
    assert {(r["id"], r["method"]) for r in shipped} <= names
    assert all(measure.inside(r) for r in shipped if r["kind"] == "sweeps")
