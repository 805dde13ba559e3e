"""What a notebook shows: the result as HTML, plots, the progress bar in a real kernel."""

from __future__ import annotations

import copy
import json
import pickle
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import cases
import mvrc
from mvrc.run import progress


def problem():
    return cases.one_level().problem


@pytest.fixture(scope="module")
def result():
    return mvrc.minimize(problem(), np.zeros(5), mvrc.ProximalGradient(0.1), epochs=12)


@pytest.fixture(scope="module")
def diverged():
    return mvrc.minimize(problem(), np.ones(5), mvrc.ProximalGradient(1e9), epochs=12)


def tree(page):
    return ElementTree.fromstring(page.replace("<br>", "<br/>"))


def test_html_has_status_numbers_and_a_curve(result):
    page = tree(result._repr_html_())
    text = " ".join(page.itertext())
    assert "EPOCHS" in text and result.message in text and f"{result.objective:.8g}" in text
    points = page.find(".//polyline").get("points").split()
    assert len(points) == len(result.history)
    heights = [float(point.split(",")[1]) for point in points]
    assert heights[0] < heights[-1]  # y grows downwards, as the objective falls


def test_html_is_escaped(result):
    wild = copy.copy(result)
    object.__setattr__(wild, "message", "<script>alert(1)</script>")
    assert "<script>" not in wild._repr_html_() and "&lt;script&gt;" in wild._repr_html_()


def test_a_run_that_diverged_shows_what_it_has(diverged):
    assert diverged.status is mvrc.Status.DIVERGED
    assert "DIVERGED" in " ".join(tree(diverged._repr_html_()).itertext())
    pyplot = pytest.importorskip("matplotlib.pyplot")
    broken = copy.deepcopy(diverged)
    broken.history.rows.append({**broken.history.rows[-1], "objective": np.inf})
    drawn = broken.plot().axes[0].lines[0].get_ydata()
    assert len(drawn) >= 1 and np.isfinite(drawn).all()
    pyplot.close("all")


def test_plots_of_many_have_medians_and_quartiles(result):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    many = mvrc.minimize_many(
        problem(),
        np.zeros(5),
        mvrc.CIVR(0.05, batch_size=5),
        epochs=4,
        seeds=range(5),
    )
    figure = mvrc.plot_many(many)
    middle = np.median([one.history.objective for one in many], axis=0)
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), middle)
    with pytest.raises(TypeError, match="results must be a list of results, as minimize_many"):
        mvrc.plot_many(result)
    assert figure._ipython_display_() is None  # open: shown at the end of the cell alone
    pyplot.close(figure)
    with pytest.raises(NotImplementedError):
        figure._ipython_display_()


def test_a_dictionary_of_plain_values(result, tmp_path):
    kept = json.loads(json.dumps(result.to_dict()))
    assert kept["x"] == result.x.tolist() and kept["status"] == "EPOCHS" and not kept["success"]
    text = result.history.to_csv(tmp_path / "h.csv")
    assert (tmp_path / "h.csv").read_text(encoding="utf-8") == text
    assert text.count("\n") == len(result.history) + 1


def test_attributes_that_people_try(result):
    assert result.fun == result.objective and result.success is False
    np.testing.assert_array_equal(result.history.objective, result.history["objective"])
    for name, right in (
        ("nit", "; it is result.epochs."), ("loss", "; it is result.objective."),
        ("to_pandas", "; it is result.history.to_pandas."), ("objectiv", "mean 'objective'"),
    ):  # fmt: skip
        with pytest.raises(AttributeError, match=right):
            getattr(result, name)
    with pytest.raises(AttributeError, match="History has no attribute 'objectives'.*objective"):
        _ = result.history.objectives
    assert pickle.loads(pickle.dumps(result)).fun == result.fun
    assert not hasattr(result, "_repr_png_")


def test_the_bar_in_a_kernel(monkeypatch):
    """As IPython's display gets it: one output, updated; escaped; full at the end."""
    shown = []

    class Handle:
        def update(self, bundle, raw):
            shown.append(bundle)

    def display(bundle, raw, display_id):
        shown.append(bundle)
        return Handle()

    kernel = type("Shell", (), {"kernel": 1})()
    ipython = type("IPython", (), {"get_ipython": staticmethod(lambda: kernel)})
    monkeypatch.setitem(progress.sys.modules, "IPython", ipython)
    monkeypatch.setitem(
        progress.sys.modules, "IPython.display", type("D", (), {"display": staticmethod(display)})
    )
    mvrc.minimize(problem(), np.zeros(5), mvrc.ProximalGradient(0.1), epochs=3, progress=True)
    assert "compiling" in shown[0]["text/plain"] and "objective" in shown[-1]["text/plain"]
    assert '<progress value="1.0000"' in shown[-1]["text/html"]


@pytest.mark.slow
def test_a_real_kernel():
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    setup = "import numpy as np, mvrc\nfrom mvrc.datasets import simulate_industry\n"
    setup += "from mvrc.applications import mean_variance\n"
    setup += "problem = mean_variance(simulate_industry(n=500, d=5))\n"
    run = "result = mvrc.minimize(problem, np.zeros(5), progress=True)\nresult"
    cells = [nbformat.v4.new_code_cell(text) for text in (setup + run, "result.plot()")]
    book = nbformat.v4.new_notebook(cells=cells)
    client.NotebookClient(book, timeout=300).execute()
    kinds = [[*out["data"]] for cell in book.cells for out in cell.outputs if "data" in out]
    assert sum("text/html" in kind for kind in kinds) == 2  # the bar and the result
    assert sum("image/png" in kind for kind in kinds) == 1
