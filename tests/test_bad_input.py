"""Bad input gets one clear sentence: which argument, what it was, what it may be."""

import re
import shutil
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mvrc
from mvrc import MVRC, Composition, Constant, Momentum, Stream, minimize, minimize_many, theory
from mvrc.applications import MeanVariancePortfolio
from mvrc.compiler import disk
from mvrc.estimators import Spider

N, D = 8, 2
DATA = np.random.default_rng(0).normal(size=(N, D))
X0 = np.zeros(D)
STEP = MVRC(0.1)


def inner(x, sample):
    return sample * x


def outer(y):
    return jnp.sum(y**2) + jnp.sum(y)


def outer_of_sample(y, sample):
    return jnp.sum((y - sample) ** 2)


def draw(key, size):
    return jax.random.normal(key, (size, D))


def problem(inner=inner, outer=outer, inner_data=DATA, **options):
    return Composition(inner, outer, inner_data, **options)


def run(composition=None, x0=X0, method=STEP, epochs=1, **options):
    return minimize(composition or problem(), x0, method, epochs=epochs, **options)


def refused(call, error, match):
    """The call raises exactly this error, whose message is one sentence on one line."""
    with pytest.raises(error, match=match) as caught:
        call()
    assert type(caught.value) is error, "a subclass comes from JAX, NumPy or the type checker"
    message = str(caught.value.args[0])
    assert "\n" not in message
    assert message.endswith(".")
    assert len(message) < 400, len(message)
    assert not re.search(r"\. [A-Z]", message), "two sentences"


def table(*rows):
    """Rows (name, call, error, decisive words) as the parameters of a test."""
    return pytest.mark.parametrize(
        ("call", "error", "match"), [pytest.param(*row[1:], id=row[0]) for row in rows]
    )


def changing():
    """A function whose result has another shape in every call."""
    calls = iter(range(1, 1000))
    return lambda x, sample: jnp.ones(next(calls)) * x[0]


NAN = np.where(DATA > 0, np.nan, DATA)
INF = np.where(DATA > 0, np.inf, DATA)
BIG = np.array([[2**40, 1], [1, 2]])
MASKED = np.ma.masked_array(DATA, DATA > 0)


@table(
    ("other n", lambda: problem(inner_data=(DATA, DATA[:5])), ValueError, r"\[5, 8\] rows"),
    ("nan", lambda: problem(inner_data=NAN), ValueError, "inner_data contains NaN"),
    ("inf", lambda: problem(inner_data={"a": INF}), ValueError, "inner_data contains NaN or inf"),
    (
        "outer nan",
        lambda: problem(outer=outer_of_sample, outer_data=NAN),
        ValueError,
        "outer_data contains NaN",
    ),
    ("masked", lambda: problem(inner_data=MASKED), ValueError, "inner_data has masked values"),
    ("no rows", lambda: problem(inner_data=DATA[:0]), ValueError, r"inner_data is empty \(0"),
    ("empty list", lambda: problem(inner_data=[]), ValueError, "inner_data is empty"),
    ("empty dict", lambda: problem(inner_data={}), ValueError, "inner_data is empty"),
    ("None", lambda: problem(inner_data=None), ValueError, "inner_data is empty"),
    ("one row", lambda: problem(inner_data=DATA[:1]), ValueError, r"one sample \(n = 1\)"),
    ("scalar", lambda: problem(inner_data=3.0), TypeError, r"inner_data .* shape \(\)"),
    ("text", lambda: problem(inner_data="data.csv"), TypeError, "inner_data .* dtype <U8"),
    ("texts", lambda: problem(inner_data=["a", "b"]), TypeError, "inner_data.* dtype <U1"),
    ("text array", lambda: problem(inner_data=DATA.astype(str)), TypeError, "numeric array"),
    ("objects", lambda: problem(inner_data=DATA.astype(object)), TypeError, "dtype object"),
    ("long double", lambda: problem(inner_data=np.ones(4, "g")), TypeError, "numeric array"),
    ("keys", lambda: problem(inner_data=jax.random.split(jax.random.key(0))), TypeError, "key<"),
    ("function", lambda: problem(inner_data=draw), TypeError, "inner_data .* dtype object"),
    ("tuples", lambda: problem(inner_data=[(1.0, 2.0)] * 3), TypeError, "list of 3 tuples"),
    ("ragged", lambda: problem(inner_data=[[1.0, 2.0], [3.0]]), ValueError, "same length"),
    ("64-bit ids", lambda: problem(inner_data=BIG), ValueError, "1099511627776.*int32; .*float64"),
)
def test_data(call, error, match):
    refused(call, error, match)


@table(
    ("inner", lambda: problem(inner=None), TypeError, "inner must be a function"),
    ("outer", lambda: problem(outer=3), TypeError, r"outer must be a function outer\(y\), not 3"),
    ("inner arity", lambda: problem(lambda x: x), TypeError, r"inner takes \(x\) .* inner\(x, s"),
    (
        "outer without outer_data",
        lambda: problem(outer=outer_of_sample),
        TypeError,
        r"outer takes \(y, sample\) but is called as outer\(y\), as no outer_data",
    ),
    (
        "outer with outer_data",
        lambda: problem(outer_data=DATA),
        TypeError,
        r"outer takes \(y\) but is called as outer\(y, sample\), as outer_data",
    ),
    ("jacobian", lambda: problem(inner_jacobian="matrix"), TypeError, "inner_jacobian must be a f"),
    ("number as r", lambda: problem(regularizer=0.1), TypeError, r"Regularizer .* not 0.1"),
    ("class as r", lambda: problem(regularizer=mvrc.L1), TypeError, r"L1\(0.01\) .* not L1"),
    ("function as r", lambda: problem(regularizer=outer), TypeError, "Custom"),
    ("sampling", lambda: problem(sampling="foo"), ValueError, "sampling must be 'replacement' or"),
    ("near sampling", lambda: problem(sampling="reshufled"), ValueError, "mean 'reshuffled'"),
    ("no sampling", lambda: problem(sampling=None), ValueError, "sampling must be .* not None"),
    (
        "sampling of a stream",
        lambda: problem(inner_data=Stream(draw), sampling="reshuffled"),
        ValueError,
        "sampling is 'reshuffled' but .* only streams",
    ),
    ("keyword", lambda: Composition(inner, outer, inner_dat=DATA), TypeError, "mean 'inner_data'"),
    ("missing", lambda: Composition(inner, outer), TypeError, "missing .* 'inner_data'"),
)
def test_composition(call, error, match):
    refused(call, error, match)


@table(
    ("too long", lambda: run(x0=np.zeros(3)), ValueError, r"inner\(x, sample\) failed.*64\[3\]"),
    ("nan", lambda: run(x0=[0.0, np.nan]), ValueError, "x0 contains NaN"),
    ("inf", lambda: run(x0=np.array([0.0, np.inf])), ValueError, "x0 contains NaN or infinite"),
    ("empty", lambda: run(x0=np.zeros(0)), ValueError, r"x0 has an array of shape \(0,\)"),
    ("empty dict", lambda: run(x0={}), ValueError, "x0 is empty"),
    ("None", lambda: run(x0=None), ValueError, "x0 is empty"),
    ("truths", lambda: run(x0=np.zeros(2, bool)), TypeError, "x0 has dtype bool; .* float32 or"),
    ("complex", lambda: run(x0=X0 + 0j), TypeError, "x0 has dtype complex128"),
    ("half", lambda: run(x0=X0.astype(np.float16)), TypeError, "x0 has dtype float16"),
    ("text", lambda: run(x0="zeros"), TypeError, "x0 has dtype <U5"),
    ("objects", lambda: run(x0=np.array([None, 1.0])), TypeError, "x0 has dtype object"),
    ("ragged", lambda: run(x0=[[1.0], [1.0, 2.0]]), ValueError, "x0 holds .* same length"),
    ("traced", lambda: jax.jit(lambda x: run(x0=x).x)(X0), TypeError, "x0 is a traced array"),
    ("objective", lambda: problem().objective(np.zeros(3)), ValueError, "inner.* failed on"),
    ("text for x", lambda: problem().objective("zeros"), TypeError, "^x has dtype <U5"),
    (
        "truths for x",
        lambda: problem().gradient([True, False]),
        TypeError,
        r"^x .*np.asarray\(x, float",
    ),
    ("nan for x", lambda: problem().check([0.0, np.nan]), ValueError, "^x contains NaN"),
)
def test_start(call, error, match):
    refused(call, error, match)


@table(
    ("scalar", lambda: run(problem(lambda x, s: x @ s)), ValueError, "inner.*returned a scalar"),
    ("changing", lambda: run(problem(changing())), ValueError, "the same in every call"),
    (
        "shape of values",
        lambda: run(problem(lambda x, s: jnp.ones(int(s[0])) * x[0])),
        ValueError,
        "inner.*shapes do not depend on values",
    ),
    ("mask", lambda: run(problem(lambda x, s: x[x > 0])), ValueError, "a mask"),
    ("branch", lambda: run(problem(lambda x, s: x if x[0] > 0 else s)), ValueError, "by if,"),
    ("NumPy", lambda: run(problem(lambda x, s: np.asarray(x))), ValueError, "or NumPy"),
    ("integers", lambda: run(problem(lambda x, s: jnp.arange(2))), TypeError, "returned dtype int"),
    ("nothing", lambda: run(problem(lambda x, s: None)), ValueError, "returned nothing"),
    ("text", lambda: run(problem(lambda x, s: "a")), ValueError, "failed.*not a valid JAX type"),
    ("unknown name", lambda: run(problem(lambda x, s: x["a"])), ValueError, "inner.*failed on"),
    ("vector", lambda: run(problem(outer=lambda y: y)), ValueError, r"outer returned float64\[2\]"),
    ("integer", lambda: run(problem(outer=lambda y: y.argmax())), TypeError, "outer returned dtyp"),
    (
        "float()",
        lambda: run(problem(outer=lambda y: float(y[0]))),
        ValueError,
        r"outer\(y\) failed",
    ),
    (
        "outer sizes",
        lambda: run(problem(outer=outer_of_sample, outer_data=np.ones((4, 3)))),
        ValueError,
        r"outer\(y, sample\) failed on float64\[2\], float64\[3\]",
    ),
    (
        "jacobian shape",
        lambda: run(problem(inner_jacobian=lambda x, s: s)),
        ValueError,
        r"inner_jacobian.*returned shapes \[\(2,\)\]; they must be \[\(2, 2\)\]",
    ),
)
def test_functions(call, error, match):
    refused(call, error, match)


def with_regularizer(r, x0=X0):
    return run(problem(regularizer=r), x0)


def custom(value=jnp.sum, prox=lambda x, step: x):
    return with_regularizer(mvrc.Custom(value, prox))


@table(
    (
        "box size",
        lambda: with_regularizer(mvrc.Box(np.zeros(3), np.ones(3))),
        ValueError,
        r"lower of Box .*\(2,\), not of shape \(3,\)",
    ),
    ("box order", lambda: mvrc.Box(1.0, 0.0), ValueError, "lower <= upper"),
    ("groups", lambda: with_regularizer(mvrc.GroupL2(0.1, [0, 0, 1])), ValueError, "the 2 of x"),
    ("partition", lambda: mvrc.GroupL2(0.1, [[0, 1], [1]]), ValueError, "groups of GroupL2 must"),
    ("nuclear", lambda: with_regularizer(mvrc.Nuclear(0.1)), ValueError, "must be one matrix"),
    ("weight", lambda: mvrc.L1(-1), ValueError, "weight of L1 must be .* not -1"),
    ("radius", lambda: mvrc.Simplex(0), ValueError, "radius of Simplex must be .* above 0"),
    ("long weight", lambda: mvrc.L1(-np.ones((30, 30))), ValueError, r"weight of L1 .*\.\.\.\.$"),
    ("ragged weight", lambda: mvrc.L2([[1], [1, 2]]), ValueError, "weight of L2 must .* not "),
    ("one bad weight", lambda: mvrc.L1([[1], [1, -2]]), ValueError, "weight of L1 must .* not "),
    ("key", lambda: mvrc.L2(jax.random.key(0)), ValueError, "weight of L2 must be a finite number"),
    ("complex", lambda: mvrc.L2(jnp.asarray(1j)), ValueError, "weight of L2 must be a finite"),
    ("text weight", lambda: mvrc.GroupL2("a", [0, 1]), ValueError, "weight of GroupL2 .* not 'a'"),
    (
        "long weights",
        lambda: mvrc.GroupL2(np.ones((30, 30)), [0, 1]),
        ValueError,
        "weight of GroupL2 must be .* array of 2 such",
    ),
    ("labels", lambda: mvrc.GroupL2(1, [*range(99), 0.5]), ValueError, "groups of GroupL2 must"),
    ("text groups", lambda: mvrc.GroupL2(1, [["a"], ["b"]]), ValueError, r"not \[\['a'\], \['b'\]"),
    ("fractions", lambda: mvrc.GroupL2(1, [[0.5], [1]]), ValueError, r"groups.*not \[\[0.5\], \["),
    ("ragged groups", lambda: mvrc.GroupL2(1, [[0, [1]], [2]]), ValueError, "groups of GroupL2"),
    (
        "box of a dict",
        lambda: with_regularizer(mvrc.Box({"a": 0}, {"a": 1})),
        ValueError,
        r"lower of Box must be .* x, of shape \(2,\), not of shape {'a': \(\)}",
    ),
    ("long box", lambda: mvrc.Box(np.ones(99), np.zeros(99)), ValueError, "lower and upper of Box"),
    ("text box", lambda: mvrc.Box("a", "b"), ValueError, "lower and upper of Box .* 'a' and 'b'"),
    (
        "operator",
        lambda: with_regularizer(mvrc.Composed(mvrc.L1(1), np.ones((2, 3)))),
        ValueError,
        r"x of Composed must be a vector of 3 coordinates, .* not of shape \(2,\)",
    ),
    ("custom", lambda: mvrc.Custom(3, 4), TypeError, r"value of Custom .* value\(x\), not 3"),
    ("value", lambda: custom(value=lambda x, y: x), TypeError, "value of Custom takes .x, y. but"),
    ("prox", lambda: custom(prox=abs), TypeError, r"prox of Custom takes .* prox\(x, step\)"),
    ("value fails", lambda: custom(lambda x: x["a"]), ValueError, r"value\(x\) of Custom failed"),
    ("float()", lambda: custom(lambda x: float(x[0])), ValueError, r"value\(x\) of .*traced array"),
    (
        "NumPy prox",
        lambda: custom(prox=lambda x, step: np.maximum(x, step)),
        ValueError,
        r"prox\(x, step\) of Custom failed .*traced array.*jax.numpy",
    ),
    (
        "branch on the step",
        lambda: custom(prox=lambda x, step: x if step > 1 else -x),
        ValueError,
        r"prox\(x, step\) of Custom failed on float64\[2\], float64\[\]: it asks for the value",
    ),
    ("keyword", lambda: mvrc.L1(wieght=0.1), TypeError, r"L1\(\) has no .*'wieght'.*mean 'weight'"),
    ("keyword box", lambda: mvrc.Box(low=0), TypeError, "no argument 'low'.*mean 'lower'"),
    ("keyword groups", lambda: mvrc.GroupL2(1, group=[0]), TypeError, "mean 'groups'"),
    ("keyword custom", lambda: mvrc.Custom(abs, prx=abs), TypeError, "mean 'prox'"),
    ("missing", lambda: mvrc.ElasticNet(1), TypeError, "missing .* 'l2'; .* are l1, l2"),
    ("too many", lambda: mvrc.NonNegative(3), TypeError, "too many .*; it takes none"),
)
def test_regularizers(call, error, match):
    refused(call, error, match)


def sized(**sizes):
    return run(method=MVRC(0.1, **sizes))


@table(
    ("negative step", lambda: MVRC(-1), ValueError, "step_size must be a positive number, not -1"),
    ("zero step", lambda: MVRC(0.0), ValueError, "step_size must be .* not 0.0"),
    ("nan step", lambda: mvrc.CIVR(np.nan), ValueError, "step_size must be .* not nan"),
    ("text step", lambda: mvrc.NestedSpider("auto"), ValueError, "step_size must be .* not 'auto'"),
    ("array step", lambda: MVRC(np.ones((20, 20))), ValueError, "step_size must be .* not array"),
    ("function step", lambda: MVRC(lambda t: 0.1), TypeError, "step_size must be .*a schedule"),
    ("epsilon", lambda: MVRC(0.1, epsilon=0), ValueError, "epsilon must be a positive number"),
    ("zero batch", lambda: MVRC(batch_size=0), ValueError, "batch_size must be .* at least 1"),
    ("float batch", lambda: MVRC(batch_size=2.0), ValueError, "batch_size must be .* not 2.0"),
    ("period", lambda: MVRC(period=0), ValueError, "period must be an integer"),
    ("large batch", lambda: sized(batch_size=9), ValueError, "batch_size is 9 .* 1 to 8"),
    ("large refresh", lambda: sized(refresh_size=9), ValueError, "refresh_size is 9 .* 1 to 8"),
    (
        "outer batch",
        lambda: sized(outer_batch_size=2),
        ValueError,
        "outer_batch_size is 2 .*no outer_data",
    ),
    (
        "outer fresh",
        lambda: sized(outer_refresh_size=2),
        ValueError,
        "outer_refresh.*no outer_data",
    ),
    ("outer one", lambda: sized(outer_batch_size=1), ValueError, "outer_batch_size .* leave it"),
    (
        "large outer batch",
        lambda: run(
            problem(outer=outer_of_sample, outer_data=DATA[:3]), method=MVRC(1, outer_batch_size=4)
        ),
        ValueError,
        "outer_batch_size is 4 but there are 3 samples",
    ),
    (
        "civr on two levels",
        lambda: run(problem(outer=outer_of_sample, outer_data=DATA), method="civr"),
        ValueError,
        "CIVR is for a single outer function",
    ),
    ("jacobian", lambda: MVRC(jacobian="matirx"), ValueError, "jacobian must be .*mean 'matrix'"),
    ("no jacobian", lambda: mvrc.CIVR(jacobian=None), ValueError, "jacobian must be .* not None"),
    ("momentum", lambda: MVRC(momentum="0.8"), TypeError, "momentum must be a number in .0, 1."),
    ("class", lambda: MVRC(momentum=Constant), TypeError, "momentum must be .* not Constant"),
    ("keyword", lambda: MVRC(stepsize=0.1), TypeError, "no argument 'stepsize'.*mean 'step_size'"),
    ("theory keyword", lambda: MVRC.from_theory(0, 0, eps=1), TypeError, "no argument 'eps'"),
    ("constants", lambda: MVRC.from_theory(3, problem()), TypeError, "constants must be .*not 3"),
    ("parts", lambda: mvrc.Method(Spider(), 3), TypeError, "scheme must be .*Scheme, not 3"),
    ("sizes", lambda: mvrc.Sizes(-1), ValueError, "values of Sizes must be .* not -1"),
    ("method", lambda: run(method="mvcr"), ValueError, "method 'mvcr' is unknown .*mean 'mvrc'"),
    ("no method", lambda: run(method=3), TypeError, "method must be a recipe .* not 3"),
    ("method class", lambda: run(method=MVRC), TypeError, "method is the class MVRC; give"),
)
def test_methods(call, error, match):
    refused(call, error, match)


@table(
    ("above", lambda: Constant(1.2), ValueError, r"alpha must lie in \[0, 1\], not 1.2"),
    ("below", lambda: Constant(-0.1), ValueError, r"alpha must lie in \[0, 1\], not -0.1"),
    ("nan", lambda: Constant(float("nan")), ValueError, "alpha must lie in .* not nan"),
    ("text", lambda: Constant("0.8"), ValueError, "alpha must lie in .* not '0.8'"),
    ("number", lambda: Momentum(1.2), ValueError, r"alpha must lie in \[0, 1\], not 1.2"),
    ("function", lambda: Momentum(lambda t: 2 / t), ValueError, r"alpha\(1\) must .* not 2.0"),
    ("late", lambda: Momentum(lambda t: t / 500), ValueError, r"alpha\(1000\) must .* not 2.0"),
    ("vector", lambda: Momentum(lambda t: np.ones(2)), ValueError, r"alpha\(1\) must lie"),
    ("None", lambda: Momentum(lambda t: None), ValueError, "alpha must be a number or a function"),
    ("arity", lambda: Momentum(lambda: 0.5), ValueError, "alpha must be .* function of the step"),
    ("branch", lambda: Momentum(lambda t: min(1, 2 / t)), ValueError, "alpha.*jax.numpy"),
    ("beta", lambda: Momentum(0.5, beta=-1), ValueError, "beta must be a positive number"),
    ("lam", lambda: Momentum(0.5, lam=lambda t: t), ValueError, r"lam\(0\) must be .* not 0.0"),
    ("restart", lambda: Constant(restart="often"), ValueError, "restart must be 'never' or 'last'"),
    ("no restart", lambda: Constant(restart=None), ValueError, "restart must be .* not None"),
    ("every", lambda: mvrc.Diminishing(restart_every=0), ValueError, "restart_every must be"),
    ("preset", lambda: mvrc.Diminishing(preset="theroy"), ValueError, "mean 'theory'"),
    ("keyword", lambda: Constant(aplha=0.8), TypeError, "no argument 'aplha'.*mean 'alpha'"),
    ("missing", lambda: Momentum(), TypeError, "missing a required argument: 'alpha'"),
)
def test_schedules(call, error, match):
    refused(call, error, match)


def saves(every):
    """A folder below a file: nothing is written even if the number passes."""
    return run(checkpoint=f"{__file__}/run", checkpoint_every=every)


def many(seeds):
    return minimize_many(problem(), X0, STEP, seeds=seeds, epochs=1)


@table(
    ("callback", lambda: run(callback=3), TypeError, "callback must be a function .* not 3"),
    ("negative epochs", lambda: run(epochs=-1), ValueError, "epochs must be .* 0, not -1"),
    ("half an epoch", lambda: run(epochs=1.5), ValueError, "epochs must be .* not 1.5"),
    ("text epochs", lambda: run(epochs="3"), ValueError, "epochs must be .* not '3'"),
    ("samples", lambda: run(samples=0), ValueError, "samples must be an integer"),
    ("seconds", lambda: run(seconds=0), ValueError, "seconds must be a positive number"),
    ("no part", lambda: run(measure_samples=0), ValueError, "measure_samples must be an integer"),
    ("half a sample", lambda: run(measure_samples=1.5), ValueError, "measure_samples must be a"),
    ("tol", lambda: run(tol=0), ValueError, "tol must be a positive number, not 0"),
    ("rtol", lambda: run(rtol=-1), ValueError, "rtol must be a positive number, not -1"),
    ("nan tol", lambda: run(tol=np.nan), ValueError, "tol must be a positive number, not nan"),
    ("record_every", lambda: run(record_every=0), ValueError, "record_every must be .* at least 1"),
    ("seed", lambda: run(seed=-1), ValueError, "seed must be an integer .* not -1"),
    ("key", lambda: run(seed=jax.random.key(0)), ValueError, "seed must be .* not Array"),
    ("large seed", lambda: run(seed=2**64), ValueError, r"seed must be below 2\*\*64, not 18446"),
    ("no seed", lambda: run(seed=None), ValueError, "seed must be an integer .* not None"),
    ("output", lambda: run(output="latest"), ValueError, "output must be 'last' .*mean 'last'"),
    ("saves", lambda: saves(0), ValueError, "checkpoint_every must be .* least 1, not 0"),
    ("half a save", lambda: saves(1.5), ValueError, "checkpoint_every must be .* not 1.5"),
    ("saves nowhere", lambda: run(checkpoint_every=2), ValueError, "is 2 but no checkpoint folder"),
    ("checkpoint", lambda: run(checkpoint=3), TypeError, "checkpoint must be the path .* not 3"),
    ("no folder", lambda: run(checkpoint=""), TypeError, "checkpoint must be the path .* not ''"),
    ("arity", lambda: run(callback=lambda: 0), TypeError, "callback must be .* of one argument"),
    ("arity 2", lambda: run(callback=inner), TypeError, "callback must be .* of one argument"),
    ("keyword", lambda: run(epoch=3), TypeError, r"minimize\(\) has no .*'epoch'.*mean 'epochs'"),
    ("missing", lambda: minimize(problem()), TypeError, "missing a required argument: 'x0'"),
    ("too many", lambda: minimize(problem(), X0, STEP, 10), TypeError, "too many positional"),
    (
        "keyword of many",
        lambda: minimize_many(problem(), X0, seed=3),
        TypeError,
        r"minimize_many\(\) has no argument 'seed' \(did you mean 'seeds'",
    ),
    ("seeds", lambda: minimize_many(problem(), X0, seeds=0), ValueError, "seeds must be .* not 0"),
    ("half seeds", lambda: many(2.5), ValueError, "seeds must be an integer .* not 2.5"),
    ("None for seeds", lambda: many(None), ValueError, "seeds must be .* not None"),
    ("text for seeds", lambda: many("ab"), ValueError, "seeds must be .* not 'ab'"),
    ("large seeds", lambda: many([2**64]), ValueError, r"seeds must be below 2\*\*64"),
    ("no seeds", lambda: minimize_many(problem(), X0, seeds=[]), ValueError, "seeds is empty"),
    ("bad seeds", lambda: minimize_many(problem(), X0, seeds=[-1]), ValueError, "seeds must .*-1"),
    ("column", lambda: mvrc.History([])["foo"], KeyError, "no column 'foo'; it has epoch"),
    ("near column", lambda: mvrc.History([])["objectiv"], KeyError, "mean 'objective'"),
)
def test_arguments_of_minimize(call, error, match):
    refused(call, error, match)


@table(
    ("problem", lambda: minimize(outer, X0), TypeError, "problem must be a Composition, not <f"),
    ("swapped", lambda: minimize(X0, problem()), TypeError, "problem must be a Composition"),
    ("output", lambda: run(output=None), ValueError, "output must be 'last' .* not None"),
    ("outputs", lambda: run(output=X0), ValueError, "output must be 'last' .* not array"),
    ("progress", lambda: run(progress="yes"), TypeError, "progress must be True or False, not 'y"),
)
def test_types_of_arguments(call, error, match):
    refused(call, error, match)


TINY = MVRC(1e-60)


@table(
    (
        "nan objective",
        lambda: run(problem(outer=lambda y: jnp.log(jnp.sum(y) - 1))),
        ValueError,
        "x0 gives an objective of nan",
    ),
    (
        "kink",
        lambda: run(problem(outer=lambda y: jnp.sqrt(jnp.sum(y**2)))),
        ValueError,
        "x0 gives a gradient that is not finite",
    ),
    (
        "tiny step",
        lambda: run(x0=X0.astype(np.float32), method=TINY),
        ValueError,
        "step_size is 1e-60, which is 0 in x0's dtype float32",
    ),
)
def test_first_point(call, error, match):
    refused(call, error, match)


def test_seeds_may_be_numpy():
    few = many(np.int64(2))
    for one, other in zip(few, many(np.arange(2)), strict=True):
        np.testing.assert_array_equal(one.x, other.x)
    assert len(few) == 2


def estimate(composition=None, x=X0, radius=1.0, **options):
    return mvrc.estimate_constants(composition or problem(), x, radius, **options)


CONSTANTS = mvrc.Constants(1, 1, 1, 1)


@table(
    ("problem", lambda: estimate(3), TypeError, "problem must be a Composition, not 3"),
    ("x", lambda: estimate(x=[True, False]), TypeError, "^x has dtype bool"),
    ("radius", lambda: estimate(radius=0), ValueError, "radius must be a positive number, not 0"),
    ("samples", lambda: estimate(samples=1), ValueError, "samples must be .* at least 2, not 1"),
    ("seed", lambda: estimate(seed=-1), ValueError, "seed must be an integer .* not -1"),
    ("large seed", lambda: estimate(seed=2**64), ValueError, r"seed must be below 2\*\*64"),
    ("negative", lambda: mvrc.Constants(1, -1, 1, 1), ValueError, "L_f must be a finite .* not -1"),
    ("zero", lambda: mvrc.Constants(0, 1, 1, 1), ValueError, "l_f must be a positive .* not 0"),
    ("text", lambda: mvrc.Constants(1, 1, 1, "a"), ValueError, "L_g must be a finite .* not 'a'"),
    ("keyword", lambda: mvrc.Constants(1, 1, lg=1.0, L_g=1), TypeError, "'lg' .*mean 'l_g'"),
    ("missing", lambda: mvrc.Constants(1, 1, 1), TypeError, "missing a required argument: 'L_g'"),
    ("constants", lambda: theory.parameters(3), TypeError, "constants must be .* not 3"),
    (
        "alpha",
        lambda: theory.parameters(CONSTANTS, n=9, alpha=X0),
        ValueError,
        "alpha must lie in",
    ),
)
def test_theory(call, error, match):
    refused(call, error, match)


def test_every_seed_below_its_limit():
    """Those that jax.random.key cannot take, too."""
    assert estimate(seed=2**64 - 1) != estimate(seed=0)


def online(draw=draw, **sizes):
    return run(problem(inner_data=Stream(draw)), method=MVRC(0.1, **sizes))


@table(
    ("batch", lambda: online(), ValueError, "batch_size is required for a Stream"),
    ("refresh", lambda: online(batch_size=2, period=3), ValueError, "refresh_size is required"),
    ("period", lambda: online(batch_size=2, refresh_size=4), ValueError, "period is required"),
    ("rows", lambda: online(lambda k, n: draw(k, 3)), ValueError, r"\(3, 2\).*must have 2 rows"),
    ("no rows", lambda: online(lambda k, n: None), ValueError, r"inner_data.draw.*shapes \[\]"),
    ("fails", lambda: online(lambda k: draw(k, 3)), ValueError, r"inner_data.draw\(key, 3\) fail"),
    ("no key", lambda: online(lambda k, n: np.ones((n, 2))), ValueError, "does not use its key"),
    ("int(key)", lambda: online(lambda k, n: np.ones(int(k))), ValueError, "draw.*traced array"),
    ("draw", lambda: Stream(DATA), TypeError, r"draw must be a function draw\(key, size\)"),
    ("seed", lambda: Stream(draw, seed=-1), ValueError, "seed must be an integer"),
    ("evaluation", lambda: Stream(draw, evaluation_size=1), ValueError, "evaluation_size must be"),
    ("keyword", lambda: Stream(draw, size=9), TypeError, r"Stream\(\) has no argument 'size'"),
)
def test_streams(call, error, match):
    refused(call, error, match)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    run(checkpoint=folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    """A checkpoint of `run()` to spoil."""
    return shutil.copytree(saved, tmp_path / "run")


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"composition": problem(inner_data=2 * DATA)}, "inner_data was float64"),
        ({"composition": problem(lambda x, s: 2 * s * x)}, "inner was"),
        ({"composition": problem(outer=lambda y: jnp.sum(y**4))}, "outer was"),
        (
            {"composition": problem(regularizer=mvrc.L1(0.1))},
            r"regularizer was Zero\(\) and is now",
        ),
        ({"method": MVRC(0.2)}, "step_size was 0.1 and is now 0.2"),
        ({"method": mvrc.CIVR(0.1)}, "method.* more differences"),
        ({"seed": 1}, r"seeds was \[0\] and is now \[1\]"),
        ({"x0": X0 + 1}, "x0 was float64"),
        ({"record_every": 2}, "record_every was 1 and is now 2"),
    ],
)
def test_checkpoint_of_another_run(folder, changed, match):
    words = f"checkpoint .* belongs to another run: .*{match}"
    refused(lambda: run(checkpoint=folder, **changed), ValueError, words)


def test_checkpoint_that_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "run", str(tmp_path / "a\0b")):
        refused(lambda path=path: run(checkpoint=path), ValueError, "checkpoint .* cannot be writ")


def test_checkpoint_in_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    run(checkpoint="~/run")
    assert (tmp_path / "run" / "state.npz").exists()


@pytest.mark.parametrize("damage", ["torn", "empty", "text", "zeros", "of something else"])
def test_damaged_checkpoint(folder, damage):
    file = folder / "state.npz"
    whole = file.read_bytes()
    if damage == "of something else":
        np.savez(file, x=X0)
    else:
        middle = len(whole) // 2
        spoiled = {"torn": whole[:middle], "empty": b"", "text": b"hello"}
        file.write_bytes(spoiled.get(damage, whole[:300] + bytes(100) + whole[400:]))
    refused(lambda: run(checkpoint=folder), ValueError, "is not a readable mvrc checkpoint")


@table(
    ("number", lambda: mvrc.compilation_cache(3), TypeError, "folder must be the path .* not 3"),
    ("empty", lambda: mvrc.compilation_cache(""), TypeError, "folder must be the path .* not ''"),
    ("file", lambda: mvrc.compilation_cache(__file__), ValueError, "folder .* cannot be written"),
    ("keyword", lambda: mvrc.compilation_cache(path="a"), TypeError, "no argument 'path'"),
)
def test_compilation_cache(call, error, match):
    before = disk.folder()
    refused(call, error, match)
    assert disk.folder() == before


@pytest.fixture(scope="module")
def plain():
    """The run with which those from other forms of the same input are compared."""
    return run()


def test_optional_packages(monkeypatch, plain):
    for name in ("rich", "rich.progress", "pandas", "matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)  # makes `import name` fail
    refused(lambda: run(progress=True), ImportError, r"progress=True needs rich: pip install")
    refused(plain.history.to_pandas, ImportError, r"needs pandas: pip install 'mvrc\[pandas\]'")
    refused(plain.plot, ImportError, r"needs matplotlib: pip install 'mvrc\[plot\]'")


def test_plot(plain):
    refused(lambda: plain.plot(ax=3), TypeError, "ax must be a pair of matplotlib axes, .* not 3")
    refused(lambda: plain.plot(ax=[1, 2]), TypeError, r"ax must be a pair .* not \[1, 2\]")
    refused(lambda: plain.plot(best="a"), ValueError, "best must be a finite number, not 'a'")
    refused(lambda: plain.plot(best=np.nan), ValueError, "best must be a finite number, not nan")
    refused(lambda: plain.plot(bst=1.0), TypeError, "no argument 'bst' .*mean 'best'")


@pytest.mark.parametrize(
    ("data", "x0"),
    [
        (DATA.tolist(), X0),
        (DATA, [0.0, 0.0]),
        (DATA, [np.float64(0), 0]),
        (np.asfortranarray(DATA), X0),
        (DATA[::-1][::-1], np.broadcast_to(0.0, D)),
        (DATA.astype(">f8"), X0.astype(">f8")),
    ],
    ids=["list", "list x0", "mixed list x0", "Fortran", "views", "big-endian"],
)
def test_other_forms_of_the_same_input(plain, data, x0):
    result = run(problem(inner_data=data), x0)
    assert result.x.dtype == np.float64
    np.testing.assert_array_equal(result.x, plain.x)


@pytest.mark.parametrize("step", [np.float64(0.1), np.array(0.1), 0.1], ids=repr)
def test_numbers_may_be_numpy(plain, step):
    result = run(method=MVRC(step, Constant(np.array(0.8))), epochs=np.int64(1))
    np.testing.assert_array_equal(result.x, plain.x)


def test_complex_data_keep_their_precision():
    assert problem(inner_data=DATA + 1j).inner_data.dtype == np.complex128


def test_jax_numbers_and_arrays_in_float32():
    assert not jax.config.read("jax_enable_x64")
    data = problem(inner_data=jnp.asarray(DATA))
    result = run(data, jnp.zeros(D), MVRC(jnp.float32(0.1)))
    again = run(problem(inner_data=DATA.astype(np.float32)), X0.astype(np.float32))
    assert result.x.dtype == again.x.dtype == np.float32
    np.testing.assert_array_equal(result.x, again.x)
    assert not jax.config.read("jax_enable_x64")


def test_pytrees_for_x_y_and_data(plain):
    """The same problem with its coordinates apart."""

    def apart(x, sample):
        first, second = sample["pair"]
        return {"left": first * x["a"], "right": (second * x["b"][0],)}

    def together(y):
        return outer(jnp.stack([y["left"], y["right"][0]]))

    composition = Composition(apart, together, {"pair": (DATA[:, 0], DATA[:, 1])})
    result = run(composition, {"a": 0.0, "b": [np.zeros(())], "none": None})
    assert result.x["none"] is None
    x = np.array([result.x["a"], result.x["b"][0]])
    # Equal in exact arithmetic; sums over samples may be taken in another order.
    np.testing.assert_allclose(x, plain.x, rtol=1e-12)


def test_lists_of_lists_of_arrays_are_pytrees():
    """Parameters of a network, [[W, b], [V]], are not taken for a ragged matrix."""
    composition = problem(lambda x, s: x[1][0] * (x[0][0] @ s + x[0][1]))
    x0 = [[np.ones((2, 2)), np.zeros(2)], [np.ones(2)]]
    gradient = composition.gradient(x0)
    assert [leaf.shape for leaf in jax.tree.leaves(gradient)] == [(2, 2), (2,), (2,)]


def test_functions_of_every_kind(plain):
    class Inner:
        def __call__(self, x, sample, scale=1.0):
            return scale * sample * x

    result = run(problem(Inner(), lambda *ys: outer(*ys)))
    np.testing.assert_allclose(result.x, plain.x, rtol=1e-12)


# --- mistakes that JAX computes on without a word -----------------------------------------------


def test_numpys_random_numbers_inside():
    rng = np.random.default_rng(0)
    for noisy in (
        lambda x, s: s * x + rng.standard_normal(),
        lambda x, s: s * x + rng.standard_normal(D),
    ):
        refused(lambda g=noisy: run(problem(inner=g)), ValueError, "another function at each call")
    refused(
        lambda: run(problem(outer=lambda y: jnp.sum(y) * np.random.rand())), ValueError,
        "outer.y. is another function at each call, as with np.random",
    )  # fmt: skip


@table(
    (
        "inner_jacobian",
        lambda: run(problem(inner_jacobian=lambda x, s: np.random.rand() * jnp.diag(s))),
        ValueError,
        r"inner_jacobian\(x, sample\) is another function at each call",
    ),
    (
        "value",
        lambda: custom(value=lambda x: np.random.rand() * jnp.sum(x)),
        ValueError,
        r"regularizer.value\(x\) is another function at each call",
    ),
    (
        "prox",
        lambda: custom(prox=lambda x, step: x + np.random.rand()),
        ValueError,
        r"regularizer.prox\(x, step\) is another function at each call",
    ),
    (
        "a part",
        lambda: with_regularizer(
            mvrc.Composed(mvrc.Custom(jnp.sum, lambda x, step: x * np.random.rand()), np.eye(2))
        ),
        ValueError,
        "regularizer.prox.* is another function at each call",
    ),
    (
        "draw",
        lambda: online(lambda key, n: draw(key, n) + np.random.rand(n, D), batch_size=2),
        ValueError,
        r"inner_data.draw\(key, 2\) is another function at each call.*key of a Stream",
    ),
    (
        "index in a regularizer",
        lambda: custom(value=lambda x: x[9]),
        IndexError,
        "regularizer.value.x. reads index 9 of 2",
    ),
)
def test_mistakes_in_every_function(call, error, match):
    refused(call, error, match)


def test_a_random_key_inside():
    """Its dtype is none of NumPy's; the same numbers at each call are no mistake."""
    fixed = lambda x, s: s * x + jax.random.normal(jax.random.key(0), (D,))  # noqa: E731
    assert np.isfinite(run(problem(inner=fixed)).objective)


@pytest.mark.parametrize(
    "wrong", [lambda y: y[5], lambda y: y[-3], lambda y: y[np.array([0, 7])][1]]
)
def test_an_index_beyond_the_end(wrong):
    refused(lambda: run(problem(outer=wrong)), IndexError, "reads index (5|-3|7) of 2")


def test_a_right_index_is_none():
    for right in (
        lambda y: y[-1] ** 2,
        lambda y: y[np.array([1, 0])] @ y,
        lambda y: y[jnp.argmax(y)],
    ):
        run(problem(outer=right))


def test_custom_rules_are_no_change():
    """Their addresses differ from trace to trace."""
    run(problem(inner=lambda x, s: jax.nn.relu(s * x), outer=lambda y: jax.nn.softplus(y).sum()))


def test_an_argument_that_is_not_used():
    with pytest.warns(UserWarning, match="inner does not depend on x"):
        run(problem(inner=lambda x, s: s))
    with pytest.warns(UserWarning, match="outer does not depend on y"):
        run(problem(outer=lambda y: jnp.float64(1.0)))


class Pair(NamedTuple):
    a: np.ndarray
    b: np.ndarray


def bcoo():
    from jax.experimental import sparse

    return sparse.BCOO.fromdense(jnp.eye(3))


class Loader:
    dataset = ()

    def __iter__(self):
        return iter(())


def sparse():
    import scipy.sparse

    return scipy.sparse.csr_matrix(np.eye(3))


def frame():
    import pandas as pd

    return pd.DataFrame({"a": [1.0, 2.0], "name": ["x", "y"]})


@table(
    (
        "rows as dicts",
        lambda: problem(inner_data=[{"a": 1.0}, {"a": 2.0}]),
        TypeError,
        "list of 2 dicts, one for each sample; give one dict of arrays",
    ),
    (
        "rows as tuples",
        lambda: problem(inner_data=[(1.0, 2.0), (3.0, 4.0)]),
        TypeError,
        "list of 2 tuples, one for each sample",
    ),
    (
        "rows as arrays",
        lambda: problem(inner_data=list(np.ones((40, 2)))),
        TypeError,
        r"list of 40 arrays of shape .2,.*np.stack.inner_data",
    ),
    (
        "generator",
        lambda: problem(inner_data=(i for i in range(3))),
        TypeError,
        "inner_data is of type generator.*a Stream.*Batches",
    ),
    ("loader", lambda: problem(inner_data=Loader()), TypeError, "Loader .a data loader."),
    ("sparse", lambda: problem(inner_data=sparse()), TypeError, "sparse csr_matrix.*toarray"),
    ("words", lambda: problem(inner_data=frame()), TypeError, "columns that are not numeric: name"),
    (
        "a few rows",
        lambda: problem(inner_data=list(np.ones((5, 2)))),
        TypeError,
        "list of 5 arrays of shape .2,.*np.stack.inner_data",
    ),
    (
        "rows in a dict",
        lambda: problem(inner_data={"a": list(np.ones((40, 2)))}),
        TypeError,
        "inner_data has a list of 40 arrays of shape .2,.*np.stack",
    ),
    (
        "rows beside targets",
        lambda: problem(inner_data=(list(np.ones((40, 2))), np.ones(40))),
        TypeError,
        "inner_data has a list of 40 arrays",
    ),
    (
        "rows as lists",
        lambda: problem(inner_data=[[np.ones(2), np.ones(2)]] * 20),
        TypeError,
        "list of 20 lists, one for each sample",
    ),
    (
        "rows as named tuples",
        lambda: problem(inner_data=[Pair(np.ones(2), np.ones(2))] * 4),
        TypeError,
        "list of 4 Pairs, one for each sample",
    ),
    ("set", lambda: problem(inner_data={1.0, 2.0}), TypeError, "is of type set, not an array"),
    ("path", lambda: problem(inner_data=Path("a.csv")), TypeError, "is of type PosixPath"),
    ("JAX's sparse", lambda: problem(inner_data=bcoo()), TypeError, "JAX sparse BCOO; .*todense"),
    (
        "words in a dict",
        lambda: problem(inner_data=dict(frame())),
        TypeError,
        r"inner_data\['name'\] is of type Series, dtype (object|str)",
    ),
    ("attribute", lambda: run(problem(lambda x, s: s.a * x)), ValueError, "array for .a, .*dict"),
    ("max_iter of a method", lambda: MVRC(max_iter=3), TypeError, "minimize's, as in .*epochs="),
    ("verbose of a method", lambda: MVRC(verbose=1), TypeError, "minimize's, as in .*progress="),
    ("bounds", lambda: run(bounds=3), TypeError, "the problem's, as in Composition.*regularizer="),
    ("class", lambda: run(method=MVRC), TypeError, "method is the class MVRC; give"),
    ("lr", lambda: MVRC(lr=0.1), TypeError, "no argument 'lr' .here step_size."),
    ("max_iter", lambda: run(max_iter=3), TypeError, "no argument 'max_iter' .here epochs."),
    ("verbose", lambda: run(verbose=True), TypeError, "no argument 'verbose' .here progress."),
    (
        "schedule",
        lambda: MVRC(step_size=lambda t: 1 / t),
        TypeError,
        "step_size must be a positive number, not a schedule",
    ),
    (
        "power",
        lambda: mvrc.SCGD(step_size=mvrc.Power(1.0)),
        TypeError,
        "step_decay of the single-loop",
    ),
    (
        "overflow",
        lambda: run(problem(inner=lambda x, s: jnp.exp(1e4 + s * x))),
        ValueError,
        "overflow, as exp of a large number",
    ),
    (
        "overflow of outer",
        lambda: run(problem(inner=lambda x, s: 1e4 + s * x, outer=lambda y: jnp.sum(jnp.exp(y)))),
        ValueError,
        "values of outer.y. that overflow, as exp of a large number",
    ),
    (
        "overflow of an outer sample",
        lambda: run(
            problem(
                inner=lambda x, s: 1e4 + s * x,
                outer=lambda y, s: jnp.sum(jnp.exp(y * s)),
                outer_data=np.arange(3.0),
            )
        ),
        ValueError,
        "values of outer.y, sample. that overflow",
    ),
    (
        "overflow of a gradient",
        lambda: run(problem(inner=lambda x, s: 709 + s * x, outer=lambda y: jnp.exp(y[0]) ** 1.1)),
        ValueError,
        "x0 gives .*exp of a large number",
    ),
    (
        "log of 0",
        lambda: run(problem(inner=lambda x, s: s**2 * jnp.log(jnp.abs(x)))),
        ValueError,
        "x0 gives an objective of nan, as .*; start where",
    ),
    (
        "lr of minimize",
        lambda: run(lr=0.1),
        TypeError,
        r"'lr' .it is a method's, as in .*step_size",
    ),
    ("step_size", lambda: run(step_size=0.1), TypeError, "'step_size' .it is a method's"),
    (
        "max_iter of an estimator",
        lambda: MeanVariancePortfolio(max_iter=3),
        TypeError,
        "MeanVariancePortfolio.. has no argument 'max_iter' .here max_epochs.",
    ),
)
def test_silent_mistakes(call, error, match):
    refused(call, error, match)


def test_whole_numbers_are_converted():
    """As NumPy would."""
    for x0 in (np.array([1, 2]), [1, 2], np.zeros(2, np.uint8)):
        assert run(x0=x0).x.dtype == np.float64
    assert problem().gradient([0, 1]).dtype == np.float64


def prices():
    import pandas as pd

    return pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1, 2, 4], "c": [True, False, True]})


def test_a_name_of_a_column():
    """A sample of a DataFrame is a row of numbers; names are those of a dict of its columns."""
    by_name = lambda x, r: r["a"] * x - r["b"]  # noqa: E731
    refused(
        lambda: run(problem(inner=by_name, inner_data=prices()[["a", "b"]])), ValueError,
        "it asks an array for 'a', .*by position, or give a dict of arrays, as dict.frame.",
    )  # fmt: skip
    named = problem(inner=by_name, inner_data=dict(prices()[["a", "b"]])).objective(np.ones(D))
    placed = problem(inner=lambda x, r: r[0] * x - r[1], inner_data=prices()[["a", "b"]])
    assert named == placed.objective(np.ones(D))


def test_columns_of_several_dtypes():
    """NumPy makes objects of numbers and truth values; missing ones are named as such."""
    made = problem(inner=lambda x, r: r[:D] * x + r[2], inner_data=prices())
    assert made.inner_data.dtype == np.float64
    twice = prices()[["a", "b"]].set_axis(["a", "a"], axis=1)
    assert problem(inner_data=twice).inner_data.shape == (3, 2)
    missing = prices().astype("Float64")
    missing.loc[0, "a"] = None
    refused(lambda: problem(inner_data=missing), ValueError, "contains NaN")


def test_a_column_for_a_vector():
    """x of shape (d, 1): taken as it is, with a word where functions broadcast or do not fit."""
    column = np.zeros((D, 1))
    fits = problem(inner=lambda x, r: r @ x - 1, outer=lambda y: jnp.sum(y**2))
    flat = problem(inner=lambda x, r: (r @ x - 1)[None], outer=lambda y: jnp.sum(y**2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run(fits, column)
    assert found.x.shape == (D, 1)
    np.testing.assert_allclose(found.x[:, 0], run(flat, column[:, 0]).x, rtol=1e-12)
    hint = r"; x has shape .2, 1., a column: for a vector give its .ravel"
    not_scalar = problem(inner=lambda x, r: jnp.stack([r @ x, r @ x]), outer=lambda y: y[0] * y[1])
    refused(lambda: run(not_scalar, column), ValueError, f"outer returned float64.1.*{hint}")
    refused(
        lambda: problem(inner=lambda x, r: jnp.dot(x, r)).gradient(column), ValueError,
        f"inner.x, sample. failed on .*{hint}",
    )  # fmt: skip
    for square in (lambda x, r: r * x, lambda x, r: jnp.sum(r * x)[None]):
        with pytest.warns(UserWarning, match=r"x has shape .2, 1., a column, which inner broadc"):
            run(problem(inner=square), column)


def test_a_gradient_through_minimize():
    def loss(x0):
        return minimize(problem(), x0, STEP, epochs=1).objective

    refused(lambda: jax.grad(loss)(jnp.zeros(D)), TypeError, "x0 is a traced array")

    def of_a_weight(weight):
        return run(problem(inner=lambda x, s: weight * s * x)).objective

    def of(regularizer):
        return lambda a: run(problem(regularizer=regularizer(a))).objective

    outside = "call mvrc outside of jit, vmap and grad"
    for regularizer, who in (
        (mvrc.L1, "regularizer has"),
        (lambda a: mvrc.Box(-a, a), "regularizer has"),
        (lambda a: mvrc.Composed(mvrc.L1(1), a * jnp.eye(D)), "operator is"),
        (
            lambda a: mvrc.Custom(lambda x: a * jnp.sum(x), lambda x, step: x),
            "regularizer.value uses",
        ),
    ):
        words = f"{who} a traced array.*{outside}"
        refused(lambda r=regularizer: jax.grad(of(r))(1.0), TypeError, words)

    for transformed in (jax.grad(of_a_weight), jax.jit(of_a_weight)):
        refused(lambda f=transformed: f(1.0), TypeError, "inner uses a traced array from outside")


def test_pickles_keep_their_precision():
    """JAX's own arrays come back in 32 bits: 1e9 + 1 is 1e9 there."""
    import pickle

    data = np.array([[1e9], [1e9 + 1]])
    made = Composition(shift, _sum, data, regularizer=mvrc.Box(np.zeros(1), np.ones(1)))
    again = pickle.loads(pickle.dumps(made))
    assert again.inner_data.dtype == np.float64
    assert again.regularizer.upper.dtype == made.regularizer.upper.dtype
    x = np.zeros(1)
    assert again.objective(x) == made.objective(x) == 0.5
    assert run(again, x).objective == run(made, x).objective


def shift(x, sample):
    return sample - 1e9 + x


def _sum(y):
    return jnp.sum(y)


def test_a_projection_to_composed_constraints():
    """An infeasible x0 of {x : l ≤ Ax ≤ u}, also with m ≠ d, starts at its projection."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((3, 5))
    target = rng.standard_normal((50, 5))
    for box in (mvrc.Box(-0.1, 0.1), mvrc.Box(np.full(3, -0.1), np.full(3, 0.1))):
        convex = Composition(
            lambda x, s: (x - s) ** 2, lambda y: jnp.sum(y), target,
            regularizer=mvrc.Composed(box, matrix),
        )  # fmt: skip
        result = minimize(convex, np.full(5, 3.0), epochs=30)
        assert np.isfinite(result.history["objective"]).all()
        assert np.all(np.abs(matrix @ result.x) <= 0.1 + 1e-9)
        assert any("projection" in note for note in result.notes)


def test_a_model_as_x0():
    """An equinox model: its floating-point arrays are x, the rest stays, and a model comes back."""
    import equinox as eqx

    data = np.random.default_rng(0).standard_normal((64, 3)).astype(np.float32)
    model = eqx.nn.MLP(2, 1, 4, 1, key=jax.random.key(0))

    def error(model, s):
        return (model(s[:2]) - s[2]) ** 2

    made = Composition(error, lambda y: jnp.log1p(y[0]), data)
    seen = []
    for method in (None, "civr"):
        result = minimize(
            made, model, method, epochs=10, callback=lambda info: seen.append(type(info.x))
        )
        assert isinstance(result.x, eqx.nn.MLP) and result.x.activation is model.activation
        assert result.objective < result.history["objective"][0]
        assert np.shape(result.x(data[0, :2])) == (1,)
    assert set(seen) == {eqx.nn.MLP}
    assert made.objective(result.x) == pytest.approx(result.objective, rel=1e-5)
    gradient = made.gradient(model)
    assert gradient.layers[0].weight.shape == model.layers[0].weight.shape
    assert made.check(model)
    assert mvrc.estimate_constants(made, model, 1.0).l_g > 0


def test_a_model_with_arrays_that_are_no_unknowns():
    """Masks, indices and keys of a model stay, although every leaf of it is an array."""
    import equinox as eqx

    class Masked(eqx.Module):
        weight: jax.Array
        mask: jax.Array
        order: jax.Array
        key: jax.Array

        def __call__(self, s):
            return ((self.weight * self.mask)[self.order] @ s)[None]

    model = Masked(jnp.ones(2), jnp.array([True, False]), jnp.array([1, 0]), jax.random.key(0))
    fit = Composition(lambda m, s: (m(s) - 1) ** 2, lambda y: y[0], DATA.astype(np.float32))
    for method in (None, STEP):
        x = minimize(fit, model, method, epochs=2).x
        assert x.weight[0] != 1 and x.weight[1] == 1
        assert x.mask.dtype == bool and x.order.dtype == np.int32


def test_a_forked_process_is_refused():
    """It would hang: JAX's threads do not come along."""
    import multiprocessing

    run()

    def child(pipe):
        try:
            run()
        except RuntimeError as error:
            pipe.send(str(error))

    here, there = multiprocessing.Pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX's own
        process = multiprocessing.get_context("fork").Process(target=child, args=(there,))
        process.start()
    assert here.poll(60) and "get_context('spawn')" in here.recv()
    process.join(10)
