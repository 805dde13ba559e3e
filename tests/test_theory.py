"""Theory: the prescriptions against formulas written again here, and against the proofs' steps."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mvrc import Sizes
from mvrc.theory import Constants, complexity, parameters

# Rounding only: every check below is an identity or an inequality of real numbers.
ROUNDING = 1e-9

positive = st.floats(0.1, 10.0)
constants = st.builds(Constants, *[positive] * 7)
alphas = st.floats(0.01, 1.0)
epsilons = st.floats(0.01, 3.0)
momenta = st.one_of(st.none(), alphas)
UNIT = Constants(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


def smoothness(c):
    return c.l_f * c.L_g + c.L_f * c.l_g**2


def single_factors(alpha):
    """(factor of σ₀²/|A|, factor of gap/(Tβ)), the last lines of the proofs of Theorems 1, 2."""
    return (182, 176) if alpha is None else (144 / alpha + 34, 144 / alpha + 28)


def double_bound(c, p, alpha, gap, C=None):
    """The last lines of the proofs of Theorems 5, 6 after M·T steps, for given C₁, C₂ on Σ²."""
    L, eps, total = smoothness(c), p.epsilon, p.restarts * p.steps
    if alpha is not None:
        inside = (10 / 9 + 2 / 25 / alpha) * eps / L + gap / eps / total
        return (4 * math.sqrt(2 / alpha) + 1) * eps + inside / (5 * L * p.beta**2)
    if C is None:
        return 23 * eps + 48 * L * gap / (5 * eps * total)
    weight = 5 * C[0] + 4 * C[1]
    return 38 * (weight + 2) * eps + 104 * (weight + 1) * L * gap / (5 * eps * total)


@given(constants)
def test_derived_constants(c):
    assert smoothness(c) == pytest.approx(c.L_F)
    assert pytest.approx(2 * c.l_g**4 * c.L_f**2 + 2 * c.l_f**2 * c.L_g**2) == c.G_0
    noise = (c.l_g * c.L_f * c.sigma_g) ** 2 + (c.l_f * c.sigma_dg) ** 2
    assert c.sigma_0_squared == pytest.approx(2 * noise)


@given(constants, momenta, st.booleans())
def test_single_step_is_the_largest_the_descent_inequality_allows(c, alpha, dominant):
    p = parameters(c, n=100, alpha=alpha, dominance=1.0 if dominant else None)
    assert p.theorem == (1 if alpha is None else 2) + 2 * dominant

    def left(beta):  # ≤ −1/(8β) is what the proofs ask
        if alpha is None:
            return 3 * beta * c.G_0 + 2 * c.L_F - 1 / (4 * beta)
        return 6 * beta * c.G_0 + c.L_F + c.L_F / alpha - 1 / (4 * beta)

    assert left(p.beta) == pytest.approx(-1 / (8 * p.beta), rel=1e-6)
    assert left(1.001 * p.beta) > -1 / (8 * 1.001 * p.beta)
    # G₀ ≤ 1/(24β²), 1/(48β²): what makes 21 + 20/24 ≤ 22 and 24/48 = 1/2 in the last lines.
    assert c.G_0 * p.beta**2 * (24 if alpha is None else 48) <= 1 + ROUNDING


@given(constants, momenta, st.integers(1, 10**9))
def test_single_sum(c, alpha, n):
    p = parameters(c, n=n, alpha=alpha)
    assert p.problem_class == "Σ¹" and p.order == "O(n + √n ε⁻²)"
    assert p.period**2 <= n < (p.period + 1) ** 2
    assert p.refresh == Sizes(None, None, None)
    assert p.batch == Sizes(p.period, p.period, None)
    assert p.epsilon is None and p.restarts == 1 and p.steps is None and p.samples is None


@given(constants, momenta, epsilons, st.booleans())
def test_single_online(c, alpha, eps, dominant):
    p = parameters(c, alpha=alpha, epsilon=eps, dominance=1.0 if dominant else None)
    scale = 4 * ((c.l_g * c.L_f * c.sigma_g) ** 2 + (c.l_f * c.sigma_dg) ** 2) / eps**2
    assert p.problem_class == "E¹" and p.epsilon is None
    assert p.period == max(1, math.floor(math.sqrt(scale)))
    assert p.batch == Sizes(p.period, p.period, None)
    assert p.refresh.values == p.refresh.jacobians == pytest.approx(math.ceil(scale), abs=1)
    assert any("raised to 1" in note for note in p.notes) == (scale < 1)


@given(constants, momenta, st.integers(1, 10**6), st.integers(1, 10**6), st.floats(0.1, 0.99))
def test_double_sum(c, alpha, n, N, share):
    eps = share * c.l_f * c.l_g / math.sqrt(max(n, N))
    p = parameters(c, n=n, N=N, two_level=True, alpha=alpha, epsilon=eps)
    assert (p.problem_class, p.theorem) == ("Σ²", 5 if alpha is None else 6)
    assert p.period == math.floor(math.sqrt(max(n, N)))
    assert p.refresh == Sizes(None, None, None) and p.epsilon == eps
    C1, C2 = max(math.sqrt(N) / n, 1.1), max(math.sqrt(n) / N, 1.1)
    assert p.batch.values == p.batch.jacobians == min(math.ceil(p.period / C1), n)
    assert p.batch.outer == min(math.ceil(p.period / C2), N)
    L = smoothness(c)
    if alpha is None:
        expected = math.sqrt(3 / 104 / (5 * C1 + 4 * C2 + 1)) / L
    else:
        expected = 1 / math.sqrt(256 * (10 * C1 + 7 * C2 + 1)) / L
    assert p.beta == pytest.approx(expected)


@given(constants, momenta, epsilons)
def test_double_online(c, alpha, eps):
    p = parameters(c, two_level=True, alpha=alpha, epsilon=eps)
    large, small = (54, 54) if alpha is None else (34, 6)
    expected = (1.5 / math.sqrt(26) if alpha is None else 0.1) / smoothness(c)
    assert p.problem_class == "E²" and p.beta == pytest.approx(expected)
    assert p.period == max(1, math.floor(c.l_f * c.l_g / eps))
    sizes = [(c.L_f * c.l_g * c.sigma_g), (c.l_f * c.sigma_dg), (c.l_g * c.sigma_df)]
    sizes = [math.ceil(large * (size / eps) ** 2) for size in sizes]
    assert [p.refresh.values, p.refresh.jacobians, p.refresh.outer] == pytest.approx(sizes, abs=1)
    assert p.batch == Sizes(*[small * p.period] * 3)


def variance_bound(c, p, alpha, n=None):
    """Eq. Fgrad_err_derive of the lemmas with the sizes prescribed, before its simplifications."""
    moved = (104 / 9 if alpha is None else 16) * (p.beta * p.epsilon) ** 2  # ‖zₜ − zₜ₋₁‖²
    online = (lambda s, size: s * s / size) if n is None else (lambda s, size: 0.0)
    left = p.period - 1
    values = online(c.sigma_g, p.refresh.values) + c.l_g**2 * moved * left / p.batch.values
    jacobian = online(c.sigma_dg, p.refresh.jacobians) + c.L_g**2 * moved * left / p.batch.jacobians
    outer = online(c.sigma_df, p.refresh.outer)
    outer += (c.L_f * c.l_g) ** 2 * moved * left / p.batch.outer
    norm = c.l_g + c.L_g * math.sqrt(moved) * left
    return 3 * norm**2 * (outer + c.L_f**2 * values) + 3 * c.l_f**2 * jacobian


@given(constants, momenta, epsilons, st.integers(1, 10**5), st.integers(1, 10**5), st.booleans())
def test_double_variance_stays_below_epsilon_squared(c, alpha, eps, n, N, online):
    if online:
        p = parameters(c, two_level=True, alpha=alpha, epsilon=eps)
    else:
        eps = min(eps, 0.999 * c.l_f * c.l_g / math.sqrt(max(n, N)))
        p = parameters(c, n=n, N=N, two_level=True, alpha=alpha, epsilon=eps)
    assert variance_bound(c, p, alpha, None if online else n) <= eps**2 * (1 + ROUNDING)


def test_double_online_variance_shares_are_those_of_the_batches():
    # Without L_g, ‖g̃'‖ ≤ l_g: five shares of 3 ε²/54 are left, three refreshes and two drifts
    # (constant momentum: three of 3 ε²/34 and two of 3·16 ε²/600). The rest is rounding and 1/τ.
    c = Constants(1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0)
    for alpha, share in ((None, 15 / 54), (1.0, 9 / 34 + 16 / 100)):
        p = parameters(c, two_level=True, epsilon=1e-4, alpha=alpha)
        assert variance_bound(c, p, alpha) == pytest.approx(share * p.epsilon**2, rel=1e-3)


@pytest.mark.parametrize("alpha", [None, 0.05, 0.5, 1.0])
def test_step_sizes_keep_the_lemmas_of_the_iterates(alpha):
    """Steps of full length ελₜ, all along one line or to and fro, stay within the lemmas."""
    p = parameters(UNIT, two_level=True, epsilon=0.1, alpha=alpha)
    unit = p.beta * p.epsilon
    for sign in (lambda t: 1, lambda t: (-1) ** t, lambda t: 1 if t < 100 else -1):
        x = y = 0.0
        before = None
        for t in range(300):
            weight, lam = p.momentum(t + 1), p.step_size(t)
            upper = 2.0 if t == 0 else 1 + p.momentum(t)
            assert p.beta <= lam <= min(upper, 2.0) * p.beta
            z = (1 - weight) * y + weight * x
            following = x + sign(t) * p.epsilon * lam
            assert (z - x) ** 2 <= (4 if alpha is None else 8 / alpha) * unit**2
            if before is not None:
                assert (z - before) ** 2 <= (104 / 9 if alpha is None else 16) * unit**2
            y, x, before = z + p.beta / lam * (following - x), following, z


def test_first_step_size_is_within_the_proofs_range():
    assert parameters(UNIT, n=10).step_size(0) == pytest.approx(2 * parameters(UNIT, n=10).beta)
    low = parameters(UNIT, n=10, lam=1.0)
    assert low.step_size(0) == low.step_size(9) == low.beta
    middle = parameters(UNIT, n=10, alpha=0.5, lam=1.25)
    assert middle.step_size(3) == 1.25 * middle.beta and middle.momentum(7) == 0.5


@given(constants, momenta, epsilons, positive, st.one_of(st.none(), st.integers(1, 10**6)))
def test_single_steps_reach_the_documented_accuracy(c, alpha, eps, gap, n):
    p = parameters(c, n=n, alpha=alpha, epsilon=eps, gap=gap)
    noise, gain = single_factors(alpha)
    noise = 0.0 if n else noise * c.sigma_0_squared / p.refresh.values
    bound = noise + gain * gap / (p.steps * p.beta)
    target = eps**2 * (1 + (0 if n else single_factors(alpha)[0] / 2))
    assert bound <= p.accuracy**2 * (1 + ROUNDING)
    assert p.accuracy**2 <= target * (1 + ROUNDING)
    if p.steps > 1:  # one step less would miss the share ε² of the last term
        assert gain * gap / ((p.steps - 1) * p.beta) > eps**2 * (1 - ROUNDING)
    assert f"{gain:.6g} (Φ(x₀) − Φ*)" in p.bound and ("ε²" in p.bound) == (n is None)


@given(constants, momenta, epsilons, positive, st.booleans(), st.booleans())
def test_double_steps_reach_the_documented_accuracy(c, alpha, eps, gap, online, restart):
    restart = restart and alpha is None
    sizes, C = {}, None
    if not online:
        sizes, C = {"n": 50, "N": 30000}, (math.sqrt(30000) / 50, 1.1)
        eps = min(eps, 0.9 * c.l_f * c.l_g / math.sqrt(30000))
    p = parameters(c, **sizes, two_level=True, alpha=alpha, epsilon=eps, gap=gap, restart=restart)
    assert p.theorem == (7 if restart else 5 if alpha is None else 6)
    bound = double_bound(c, p, alpha, gap, C)
    assert bound == pytest.approx(p.accuracy)
    floor = double_bound(c, p, alpha, 0.0, C)
    assert bound <= (floor + eps) * (1 + ROUNDING)
    if not restart and p.steps > 1:
        assert (bound - floor) * p.steps / (p.steps - 1) > eps * (1 - ROUNDING)
    assert ("M T" in p.bound) == restart


@given(constants, momenta, st.floats(0.01, 0.9), positive, st.floats(0.5, 50), st.booleans())
def test_dominance_contracts_to_the_documented_accuracy(c, alpha, eps, gap, v, online):
    p = parameters(c, n=None if online else 900, alpha=alpha, epsilon=eps, gap=gap, dominance=v)
    assert p.theorem == (3 if alpha is None else 4)
    noise, gain = single_factors(alpha)
    noise = noise * c.sigma_0_squared / p.refresh.values if online else 0.0
    error, contraction = gap, v / 2 * gain / (p.steps * p.beta)
    assert contraction <= 0.5 + ROUNDING and p.steps % p.period == 0
    for _ in range(p.restarts):
        error = v / 2 * noise + contraction * error
    assert error <= p.accuracy * (1 + ROUNDING)
    floor = v * single_factors(alpha)[0] / 2 if online else 0.0
    assert p.accuracy <= (1 + floor) * eps**2 * (1 + ROUNDING)
    if p.restarts > 1:
        assert gap / 2 ** (p.restarts - 1) > eps**2 * (1 - ROUNDING)
    # The number of steps printed in the proof, Cv/(2β) with C = gain/2, would not contract.
    assert v / 2 * gain / (max(math.ceil(gain * v / (4 * p.beta)), 1) * p.beta) > 1


def test_dominance_without_gap_takes_the_papers_number_of_runs():
    p = parameters(UNIT, n=100, dominance=2.0, epsilon=0.01)
    assert p.restarts == math.ceil(math.log2(0.01**-2)) and p.accuracy is None
    assert parameters(UNIT, n=100, dominance=2.0).restarts is None
    tiny = parameters(UNIT, n=10**8, dominance=1.0)
    assert tiny.steps == tiny.period == 10**4  # T ≥ τ
    assert any("r must be 0" in note for note in p.notes)
    assert any("too small" in note for note in parameters(UNIT, n=9, dominance=0.1).notes)


@settings(max_examples=40)
@given(
    constants, st.floats(0.2, 1), st.floats(1e-5, 1e-3), st.sampled_from(["Σ¹", "E¹", "Σ²", "E²"])
)
def test_counts_are_those_of_the_loop(c, alpha, gap, problem):
    eps = 0.9 * c.l_f * c.l_g / 30
    n, N = (900, 40) if "Σ" in problem else (None, None)
    two_level = "²" in problem
    p = parameters(
        c, n=n, N=N if two_level else None, two_level=two_level, alpha=alpha, epsilon=eps, gap=gap
    )
    steps = min(p.steps, 5000)  # the loop is slow: shorten the run by its gap
    p = parameters(
        c,
        n=n,
        N=N if two_level else None,
        two_level=two_level,
        alpha=alpha,
        epsilon=eps,
        gap=gap * steps / p.steps,
    )
    large = [a or b for a, b in zip(vars(p.refresh).values(), (n, n, N), strict=True)]
    small = list(vars(p.batch).values())
    if not two_level:
        large, small = large[:1], small[:1]
    samples = evaluations = 0
    for t in range(p.steps):
        samples += sum(small if t % p.period else large)
        evaluations += 2 * sum(small) if t % p.period else sum(large)
    assert (p.samples, p.evaluations) == (samples, evaluations)


@given(st.integers(1, 10**7), st.floats(0.001, 1.0), st.booleans())
def test_restarts_are_whole_epochs_and_keep_the_complexity(n, eps, two_level):
    """M·T covers the unrestarted T, and the samples stay in proportion even when √n ≫ 1/ε."""
    more = {"N": n, "two_level": True} if two_level else {}
    if two_level:
        eps = min(eps, 0.9 / math.sqrt(n))
    plain = parameters(UNIT, n=n, epsilon=eps, gap=0.01, **more)
    p = parameters(UNIT, n=n, epsilon=eps, gap=0.01, restart=True, **more)
    assert p.theorem == (7 if two_level else 1)
    assert p.steps % p.period == 0 and p.restarts * p.steps >= plain.steps
    assert (p.restarts - 1) * p.steps < plain.steps
    assert p.steps <= math.sqrt(plain.steps) + p.period + 1
    small = sum((p.batch.values, p.batch.jacobians, p.batch.outer or 0)[: 3 if two_level else 1])
    epoch = (3 if two_level else 1) * n + (p.period - 1) * small
    assert p.samples <= plain.samples + (p.steps // p.period + 1) * epoch  # one run more
    assert any("last iterate x_T" in note for note in p.notes)
    unknown = parameters(UNIT, n=n, epsilon=eps, restart=True, **more)
    assert unknown.restarts is None and unknown.steps is None


@pytest.mark.parametrize("problem", ["Σ¹", "E¹", "Σ²", "E²"])
@pytest.mark.parametrize("alpha", [None, 0.7])
def test_samples_grow_as_the_order_says(problem, alpha):
    sizes = {"Σ¹": {"n": 100}, "Σ²": {"n": 100, "N": 64}}.get(problem, {})
    ratios = []
    for eps in (1e-3, 1e-4, 1e-5):
        p = parameters(UNIT, **sizes, two_level="²" in problem, alpha=alpha, epsilon=eps, gap=1.0)
        ratios.append(p.samples / complexity(problem, **sizes, epsilon=eps))
    assert max(ratios) <= 1.1 * min(ratios)


def test_complexity_formulas():
    assert complexity("Σ¹", 100, epsilon=0.1) == pytest.approx(100 + 10 * 100)
    assert complexity("E¹", epsilon=0.1) == pytest.approx(1000)
    assert complexity("Σ²", 100, 400, epsilon=0.1) == pytest.approx(500 + 20 * 100)
    assert complexity("E²", epsilon=0.5) == pytest.approx(8)
    assert complexity("Σ¹", 100, epsilon=0.1, dominance=3.0) == pytest.approx(130 * math.log(10))
    assert complexity("E¹", epsilon=0.1, dominance=3.0) == pytest.approx(300 * math.log(10))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("Σ3",), "problem_class must be 'Σ¹'"),
        (("Σ¹",), "n must be an integer of at least 1, not None"),
        (("Σ²", 10), "N must be an integer of at least 1, not None"),
        (("E¹", 10), "n must be None for E¹, not 10"),
        (("Σ¹", 10, 10), "N must be None for Σ¹, not 10"),
    ],
)
def test_complexity_refusals(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        complexity(*arguments, epsilon=0.1)


@pytest.mark.parametrize(("problem", "eps"), [("E²", 0.1), ("E¹", 1.0)])
def test_complexity_refuses_dominance(problem, eps):
    with pytest.raises(ValueError, match="dominance must be None unless"):
        complexity(problem, epsilon=eps, dominance=1.0)


@given(constants, st.floats(1.01, 20), st.floats(1.01, 20))
def test_given_constants_of_the_batches_are_used(c, C1, C2):
    eps = 0.01 * c.l_f * c.l_g
    p = parameters(c, n=900, N=400, two_level=True, epsilon=eps, C1=C1, C2=C2)
    assert p.beta == pytest.approx(
        math.sqrt(3) / (2 * math.sqrt(26 * (5 * C1 + 4 * C2 + 1)) * smoothness(c))
    )
    assert p.batch == Sizes(math.ceil(30 / C1), math.ceil(30 / C1), math.ceil(30 / C2))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("l_f", 0.0, "l_f must be a positive number, not 0.0"),
        ("l_g", -1.0, "l_g must be a positive number, not -1.0"),
        ("L_f", -1.0, "L_f must be a finite number of at least 0, not -1.0"),
        ("L_g", math.inf, "L_g must be a finite number of at least 0, not inf"),
        ("sigma_g", math.nan, "sigma_g must be a finite number of at least 0, not nan"),
        ("sigma_df", -0.5, "sigma_df must be a finite number of at least 0, not -0.5"),
    ],
)
def test_constants_refusals(name, value, sentence):
    with pytest.raises(ValueError, match=sentence):
        Constants(**{"l_f": 1.0, "L_f": 1.0, "l_g": 1.0, "L_g": 1.0, name: value})


def test_constants_may_be_whole_or_numpy_numbers():
    assert Constants(1, 1, np.float32(1), np.array(1)) == Constants(1.0, 1.0, 1.0, 1.0)


TWO = {"two_level": True, "epsilon": 0.01}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n": 0}, "n must be an integer of at least 1, not 0"),
        ({"n": 9, "N": -3, **TWO}, "N must be an integer of at least 1, not -3"),
        ({"n": 9, "alpha": 0.0}, r"alpha must lie in \(0, 1\] or be None .* not 0.0"),
        ({"n": 9, "alpha": 1.5}, r"alpha must lie in \(0, 1\] or be None .* not 1.5"),
        ({"n": 9, "lam": 1.1}, r"lam must lie in \[1, 1 \+ αₜ\] for every t, so be 1, .* not 1.1"),
        ({"n": 9, "alpha": 0.5, "lam": 1.6}, r"lam must lie in \[1, 1 \+ α\] = \[1, 1.5\], .* 1.6"),
        ({"n": 9, "alpha": 0.5, "lam": 0.9}, r"lam must lie in .* not 0.9"),
        ({"n": 9, "gap": 1.0}, "epsilon must be a positive number when gap is given, not None"),
        ({"n": 9, "gap": -1.0, "epsilon": 0.1}, "gap must be a positive number, not -1.0"),
        ({}, "epsilon must be a positive number for E¹, not None"),
        ({"two_level": True}, "epsilon must be a positive number for E², not None"),
        ({"n": 9, "N": 9, "two_level": True}, "epsilon must be a positive number for Σ²"),
        ({"n": 9, **TWO}, "n and N must be both given or both None, not n=9 and N=None"),
        ({"N": 9, **TWO}, "n and N must be both given or both None, not n=None and N=9"),
        ({"n": 9, "N": 9}, r"N must be None for one level \(two_level=False\), not 9"),
        ({**TWO, "dominance": 1.0}, "dominance must be None with two levels, not 1.0"),
        ({"n": 9, "restart": True, "alpha": 0.5}, "restart must be False with a constant alpha"),
        ({"n": 9, "restart": True, "dominance": 2.0}, "restart must be False .* with dominance"),
        ({"n": 9, "C1": 2.0}, "C1 must be None for Σ¹, not 2.0"),
        ({**TWO, "C2": 2.0}, "C2 must be None for E², not 2.0"),
        ({"n": 9, "N": 400, **TWO, "C1": 2.0}, "C1 must be above 1 and at least 2.22222, not 2.0"),
        ({"n": 9, "N": 9, **TWO, "C2": 1.0}, "C2 must be above 1 and at least 1, not 1.0"),
        (
            {"n": 9, "N": 100, "two_level": True, "epsilon": 0.1},
            r"epsilon must be below l_f l_g/√max\(N, n\) = 0.1 for Σ² .* not 0.1",
        ),
        ({"epsilon": 1e-200}, "epsilon must be larger: .* overflows"),
    ],
)
def test_refusals(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        parameters(UNIT, **arguments)


def test_refuses_what_no_theorem_covers():
    quiet = Constants(1.0, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="σ₀² above 0 online.* sigma_g = 0.0 and sigma_dg = 0.0"):
        parameters(quiet, epsilon=0.1)
    with pytest.raises(ValueError, match="must have noise online"):
        parameters(quiet, **TWO)
    with pytest.raises(ValueError, match="L_F above 0 .* not L_F = 0.0"):
        parameters(Constants(1.0, 0.0, 1.0, 0.0), n=9)
    with pytest.raises(TypeError, match="no argument 'epsilom'.*did you mean 'epsilon'"):
        parameters(UNIT, epsilom=0.1)


def test_no_argument_is_silently_ignored():
    def said(text, **arguments):
        return any(text in note for note in parameters(UNIT, **arguments).notes)

    assert said("σ are not used", n=9) and not said("σ are not used", epsilon=0.1)
    assert said("sigma_df is not used", epsilon=0.1) and not said("sigma_df", **TWO)
    assert said("epsilon is not used", n=9, epsilon=0.1)
    assert not said("epsilon is not used", n=9, epsilon=0.1, gap=1.0)
    one = parameters(Constants(1.0, 1.0, 1.0, 1.0, sigma_g=1.0), **TWO)
    assert one.refresh.jacobians == one.refresh.outer == 1
    assert sum("adds no noise" in note for note in one.notes) == 2


@given(constants, momenta, epsilons, st.one_of(st.none(), st.just(2.0)))
def test_every_text_is_one_sentence(c, alpha, eps, dominance):
    for p in (
        parameters(c, alpha=alpha, epsilon=eps, gap=1.0, dominance=dominance),
        parameters(c, n=50, alpha=alpha, dominance=dominance),
        parameters(c, two_level=True, alpha=alpha, epsilon=eps),
    ):
        for text in (p.bound, *p.notes):
            assert text.endswith(".") and ". " not in text and text[0] != " "
        assert p.bound.startswith(f"Theorem {p.theorem}: ")
