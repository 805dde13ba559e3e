"""Loaders and generators: where files are found, what is refused, and how like the real data."""

from __future__ import annotations

import contextlib
import csv
import functools
import http.server
import importlib.util
import socket
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from mvrc import datasets
from mvrc.datasets import download, files

REAL = Path(__file__).resolve().parents[2] / "shared" / "data"
ZIP = "30_Industry_Portfolios_daily_CSV.zip"


def needs(name):
    """The file, or the sentence why the test is skipped."""
    if not (REAL / name).exists():
        pytest.skip(f"needs {REAL / name}, which is not redistributed")
    return REAL / name


def sentence(caught):
    """An error's text: one sentence on one line."""
    text = str(caught.value)
    assert "\n" not in text and text.endswith(".") and not text.endswith(".."), text
    return text


def french_text(days=40, assets=30, missing_asset=False, seed=0):
    """A made-up file as the library writes them, and the returns in it."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(days, assets)).round(2)
    dates = [20200101 + k for k in range(days)]  # eight digits are all that is asked
    names = [f"Ind{k}" for k in range(assets)] + ["Gone"] * missing_asset
    head = f",{','.join(name.ljust(5) for name in names)}\n"
    extra = ", -99.99" * missing_asset

    def block(table):
        lines = zip(dates, table, strict=True)
        return head + "".join(
            f"{date}," + ",".join(f"{v:7.2f}" for v in row) + extra + "\n" for date, row in lines
        )

    text = (
        "  This file was created by a test, using no database.\n"
        "  Missing data are indicated by -99.99 or -999.\n\n"
        f"  Average Value Weighted Returns -- Daily\n{block(values)}\n"
        f"  Average Equal Weighted Returns -- Daily\n{block(values + 50)}\n"
        "Copyright 2020 Nobody\n"
    )
    return text, values


def write_zip(folder, name=ZIP, **options):
    text, values = french_text(**options)
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("30_Industry_Portfolios_Daily.csv", text)
    return folder / name, values


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A folder with no data in any of the places, and no way to the library."""
    here = tmp_path / "deep" / "here"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.delenv(files.VARIABLE, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(files, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(download, "BASE", "http://127.0.0.1:1/")  # a port where nobody listens
    return tmp_path


@contextlib.contextmanager
def serving(folder, monkeypatch):
    """The library's server, played by this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setattr(download, "BASE", f"http://127.0.0.1:{server.server_port}/")
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


# Where files are looked for


def test_places_come_in_order(alone, monkeypatch):
    """Each later place is filled first, so that each earlier one must win over it."""
    here = Path.cwd()
    folders = [alone / "cache", here / "shared/data", here / "../shared/data", alone / "named"]
    for seed, folder in enumerate(folders):
        _, values = write_zip(folder, seed=seed)
        if folder.name == "named":
            monkeypatch.setenv(files.VARIABLE, str(folder))
        np.testing.assert_array_equal(datasets.industry30().values, values)
    path, values = write_zip(alone / "given", "any name.zip", seed=9)
    np.testing.assert_array_equal(datasets.industry30(path).values, values)
    _, values = write_zip(alone / "given", seed=10)
    np.testing.assert_array_equal(datasets.industry30(str(alone / "given")).values, values)


def test_both_counts_have_their_own_file(alone, monkeypatch):
    monkeypatch.setenv(files.VARIABLE, str(alone))
    for count in (30, 38):
        text, _ = french_text(assets=30 if count == 30 else 37, missing_asset=count == 38)
        (alone / f"industry{count}_daily.csv").write_text(text)
    assert datasets.industry30().values.shape == (40, 30)
    more = datasets.industry38(days=7)
    assert more.values.shape == (7, 37)
    assert more.dropped == ("Gone",)
    assert all(type(name) is str for name in more.assets)


def test_a_file_of_the_other_count_is_refused(alone):
    text, _ = french_text(assets=36, missing_asset=True)
    (alone / "other.csv").write_text(text)
    for reader, count in ((datasets.industry30, 30), (datasets.industry38, 38)):
        with pytest.raises(ValueError, match=f"has 37 portfolios, but industry{count}") as caught:
            reader(alone / "other.csv")
        sentence(caught)
    assert datasets.read_french(alone / "other.csv").values.shape == (40, 36)


def test_without_a_file_the_way_out_is_told(alone, monkeypatch):
    with pytest.raises(FileNotFoundError) as caught:
        datasets.industry38()
    text = sentence(caught)
    for part in ("industry38()", "industry38_daily.csv", "../shared/data", "127.0.0.1:1",
                 "path=...", "MVRC_DATA", "simulate_industry()"):  # fmt: skip
        assert part in text
    with pytest.raises(FileNotFoundError, match=r"housing\(\) found .* simulate_housing\(\)") as e:
        datasets.housing()
    sentence(e)
    assert not any((alone / "cache").glob("*"))
    monkeypatch.setattr(files, "cache_folder", lambda: None)  # as without pooch
    with pytest.raises(FileNotFoundError, match=r"pip install 'mvrc\[data\]'") as caught:
        datasets.industry30()
    sentence(caught)


def test_pooch_is_imported_only_where_it_is_used(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)  # its import now fails
    assert files.cache_folder() is None
    assert len(files.places()) >= 2


def test_cache_is_that_of_the_user():
    pooch = pytest.importorskip("pooch")
    assert files.cache_folder() == Path(pooch.os_cache("mvrc"))


# Downloads


def test_download_is_kept_with_its_hash(alone, monkeypatch):
    source, values = write_zip(alone / "site")
    with serving(alone / "site", monkeypatch):
        np.testing.assert_array_equal(datasets.industry30().values, values)
    kept = alone / "cache" / ZIP
    assert sorted(f.name for f in kept.parent.iterdir()) == [ZIP, f"{ZIP}.sha256"]
    assert (kept.parent / f"{ZIP}.sha256").read_text() == f"{files.sha256(source)}  {ZIP}\n"
    np.testing.assert_array_equal(datasets.industry30(days=5).values, values[-5:])  # no server

    digits = files.sha256(source)
    datasets.industry30(known_hash=f"sha256:{digits}")
    with pytest.raises(ValueError, match="known_hash is 000.* has the sha256") as caught:
        datasets.industry30(known_hash="0" * 64)
    sentence(caught)

    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 1
    kept.write_bytes(content)
    with pytest.raises(ValueError, match="changed or damaged.*delete both files") as caught:
        datasets.industry30()
    sentence(caught)


def damaged(content):
    content = bytearray(content)
    content[len(content) // 3] ^= 0xFF
    return bytes(content)


@pytest.mark.parametrize(
    "spoil",
    [damaged, lambda c: c[: len(c) // 2], lambda c: b"<html>moved</html>", lambda c: b""],
    ids=["damaged", "cut", "html", "empty"],
)
def test_broken_download_is_not_kept(alone, monkeypatch, spoil):
    path, _ = write_zip(alone / "site", days=400)
    path.write_bytes(spoil(path.read_bytes()))
    assert_nothing_is_kept(alone, monkeypatch, "gave no complete file of returns")


def test_zip_of_something_else_is_not_kept(alone, monkeypatch):
    (alone / "site").mkdir()
    with zipfile.ZipFile(alone / "site" / ZIP, "w") as archive:
        archive.writestr("other.csv", "a,b\n1,2\n")
    assert_nothing_is_kept(alone, monkeypatch, "gave no complete file of returns")


def test_missing_page_is_told(alone, monkeypatch):
    (alone / "site").mkdir()
    assert_nothing_is_kept(alone, monkeypatch, "the server answered 404")


def test_wrong_hash_is_not_kept(alone, monkeypatch):
    write_zip(alone / "site")
    with serving(alone / "site", monkeypatch):
        with pytest.raises(ValueError, match="known_hash is 111.*http://127") as caught:
            datasets.industry30(known_hash="1" * 64)
        sentence(caught)
    assert not any((alone / "cache").iterdir())


def assert_nothing_is_kept(alone, monkeypatch, why):
    with (
        serving(alone / "site", monkeypatch),
        pytest.raises(FileNotFoundError, match=why) as caught,
    ):
        datasets.industry30()
    assert "simulate_industry()" in sentence(caught)
    assert not any((alone / "cache").iterdir())


def test_silent_server_is_given_up(alone, monkeypatch):
    """It takes the connection and never answers."""
    assert download.TIMEOUT <= 10
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(download, "BASE", f"http://127.0.0.1:{server.getsockname()[1]}/")
        monkeypatch.setattr(download, "TIMEOUT", 0.2)
        with pytest.raises(FileNotFoundError, match="ReadTimeout") as caught:
            datasets.industry30()
    sentence(caught)
    assert not any((alone / "cache").iterdir())


def test_cache_that_cannot_be_written_is_told(alone, monkeypatch):
    (alone / "cache").write_text("a file where the folder should be")
    with pytest.raises(FileNotFoundError, match="cannot be downloaded") as caught:
        datasets.industry30()
    sentence(caught)


# Housing

HEADER = ["Avg. Area Income", "Avg. Area House Age", "Avg. Area Number of Rooms",
          "Avg. Area Number of Bedrooms", "Area Population", "Price", "Address"]  # fmt: skip


def write_housing(path, rows):
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([HEADER, *rows])
    return path


@pytest.mark.parametrize("name", ["usa_housing.csv", "USA_Housing.csv"])
def test_housing_takes_four_columns_by_name(alone, name):
    table = np.random.default_rng(0).uniform(1, 9, (20, 6))
    rows = [[*row, f"{k} Some Road\nTown, XY 0{k}"] for k, row in enumerate(table)]
    path = write_housing(alone / name, rows)
    data = datasets.housing(path, noise_features=3, seed=1)
    assert data.X.shape == (20, 7)
    assert data.features == (*HEADER[:3], HEADER[4], "noise 1", "noise 2", "noise 3")
    columns = table[:, [0, 1, 2, 4]]
    np.testing.assert_allclose(data.X[:, :4], columns / np.sqrt((columns**2).mean(0)), rtol=1e-14)
    np.testing.assert_allclose(data.y, table[:, 5] / np.sqrt((table[:, 5] ** 2).mean()))
    np.testing.assert_allclose((data.X**2).mean(0), 1)
    again = datasets.housing(alone, noise_features=3, seed=2)  # the folder
    np.testing.assert_array_equal(again.X[:, :4], data.X[:, :4])
    assert not np.any(again.X[:, 4:] == data.X[:, 4:])


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", ",".join(HEADER) + "\n1,2,x,4,5,6,road\n",
             ",".join(HEADER) + "\n1,2\n", ",".join(HEADER) + "\n1,2,nan,4,5,6,road\n",
             ",".join(HEADER) + "\n"],
)  # fmt: skip
def test_other_files_are_no_housing(tmp_path, text):
    (tmp_path / "usa_housing.csv").write_text(text)
    with pytest.raises(ValueError, match="is not a USA Housing file") as caught:
        datasets.housing(tmp_path)
    sentence(caught)


# The real files


def moments(values):
    """What the simulation is to share with the file."""
    scaled = (values - values.mean(0)) / values.std(0)
    correlation = np.corrcoef(values.T)
    d = len(correlation)
    eigenvalues = np.linalg.eigvalsh(np.cov(values.T))
    size = np.abs(values.mean(1))
    return {
        "mean": values.mean(),
        "deviation": values.std(0).mean(),
        "correlation": (correlation.sum() - d) / (d * (d - 1)),
        "kurtosis": np.median((scaled**4).mean(0)),
        "first eigenvalue": eigenvalues[-1] / eigenvalues.sum(),
        "clustering": np.corrcoef(size[:-5], size[5:])[0, 1],
    }


@pytest.fixture(scope="module")
def real_moments():
    return moments(datasets.industry30(needs("industry30_daily.csv")).values)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_simulated_industry_is_like_the_file(real_moments, seed):
    """Within three times the spread over 20 seeds: 11 % for the mean, 6 % for the deviation, 4 %
    for correlation and eigenvalue, 22 % for the kurtosis. Days cluster a little less than in
    the file, 0.25 against 0.31."""
    made = moments(datasets.simulate_industry(seed=seed).values)
    assert made["mean"] == pytest.approx(real_moments["mean"], rel=0.33)
    assert made["deviation"] == pytest.approx(real_moments["deviation"], rel=0.18)
    assert made["correlation"] == pytest.approx(real_moments["correlation"], rel=0.12)
    assert made["first eigenvalue"] == pytest.approx(real_moments["first eigenvalue"], rel=0.12)
    assert made["kurtosis"] == pytest.approx(real_moments["kurtosis"], rel=0.66)
    assert made["clustering"] == pytest.approx(real_moments["clustering"], abs=0.15)


def test_simulated_industry_is_roughly_like_the_other_file():
    """1998 to 2018 were rougher than the years since 1959: only the order of size is asked."""
    real = moments(datasets.industry38(needs("industry38_daily.csv")).values)
    made = moments(datasets.simulate_industry(5283, 38).values)
    for name in ("mean", "deviation", "correlation", "first eigenvalue", "kurtosis"):
        assert 0.5 < made[name] / real[name] < 2, name


def test_real_files_have_the_shapes_of_their_description():
    data = datasets.industry38(needs("industry38_daily.csv"))
    assert data.values.shape == (5283, 36)
    assert data.dropped == ("Steam", "Water")
    assert (data.dates[0], data.dates[-1]) == (19980102, 20181231)
    assert data.values.min() > -99


def fit(data):
    """Least squares with a constant on the four features: relative slopes, and R²."""
    X, y = data.X[:, :4] / data.X[:, :4].mean(0), data.y / data.y.mean()
    design = np.column_stack([np.ones(len(y)), X])
    slopes = np.linalg.lstsq(design, y, rcond=None)[0]
    return slopes[1:], 1 - np.var(y - design @ slopes) / np.var(y)


def test_simulated_housing_is_like_the_file():
    """5,000 houses: a standard deviation is known to 1/√10000 = 1 %, a slope to 2 % or less."""
    real, made = datasets.housing(needs("usa_housing.csv")), datasets.simulate_housing()
    assert real.X.shape == made.X.shape == (5000, 100)
    assert real.features == made.features
    np.testing.assert_allclose(made.X[:, :4].std(0), real.X[:, :4].std(0), rtol=0.05)
    assert made.y.std() == pytest.approx(real.y.std(), rel=0.05)
    (slopes, share), (made_slopes, made_share) = fit(real), fit(made)
    np.testing.assert_allclose(made_slopes, slopes, rtol=0.06)
    assert made_share == pytest.approx(share, abs=0.01)


# Generators


def test_simulated_industry_has_the_form_of_a_file():
    data = datasets.simulate_industry(300, 4, seed=3)
    assert data.values.shape == (300, 4)
    assert data.assets == ("asset 1", "asset 2", "asset 3", "asset 4")
    assert data.dropped == ()
    assert list(data.dates[:4]) == [19260701, 19260702, 19260705, 19260706]  # 3 and 4: a weekend
    assert np.all(np.diff(data.dates) > 0)
    assert datasets.simulate_industry().values.shape == (24452, 30)
    assert datasets.simulate_industry(1, 1).values.shape == (1, 1)


def test_returns_as_a_frame(monkeypatch):
    pytest.importorskip("pandas")
    data = datasets.simulate_industry(300, 4, seed=3)
    frame = data.to_pandas()
    np.testing.assert_array_equal(frame.to_numpy(), data.values)
    assert tuple(frame.columns) == data.assets
    assert list(frame.index.strftime("%Y%m%d").astype(int)) == list(data.dates)
    monkeypatch.setitem(sys.modules, "pandas", None)  # its import now fails
    with pytest.raises(ImportError, match=r"pip install 'mvrc\[pandas\]'") as caught:
        data.to_pandas()
    sentence(caught)


def test_simulated_returns_never_lose_more_than_all():
    lowest = min(datasets.simulate_industry(5000, seed=seed).values.min() for seed in range(10))
    assert lowest > -100


@pytest.mark.parametrize("seed", [0, 1])
def test_simulated_housing_is_scaled(seed):
    data = datasets.simulate_housing(200, noise_features=5, seed=seed)
    assert data.X.shape == (200, 9) and len(data.features) == 9
    np.testing.assert_allclose((data.X**2).mean(0), 1)
    assert (data.y**2).mean() == pytest.approx(1)
    assert data.y.mean() > 0.9  # not centred
    assert datasets.simulate_housing(3, noise_features=0).X.shape == (3, 4)


@pytest.mark.parametrize("branching", [None, 1, 3, 50])
def test_random_mdp_is_an_ergodic_chain(branching):
    chain = datasets.random_mdp(50, 7, gamma=0.9, seed=1, branching=branching)
    assert chain.transition.shape == chain.rewards.shape == (50, 50)
    assert chain.features.shape == (50, 7) and chain.gamma == 0.9
    np.testing.assert_allclose(chain.transition.sum(1), 1, rtol=1e-14)
    assert chain.transition.min() > 0
    for part in (chain.rewards, chain.features):
        assert part.min() >= 0 and part.max() <= 1
    likely = (chain.transition > 2 * chain.transition.min(1, keepdims=True)).sum(1)
    assert np.all(likely <= (branching or 50))
    assert likely.mean() > 0.9 * (branching or 50)


@pytest.mark.parametrize(
    "make", [functools.partial(datasets.simulate_industry, 50, 3),
             functools.partial(datasets.simulate_housing, 50), functools.partial(
                 datasets.random_mdp, 20, 3, branching=4)],
)  # fmt: skip
def test_seed_decides_everything(make):
    first, again, other = make(seed=5), make(seed=5), make(seed=6)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[0], other[0])


def needs_skfolio():
    if importlib.util.find_spec("skfolio") is None:
        pytest.skip("needs skfolio, which has the prices")


def test_sp500_has_every_day():
    """And skfolio is not imported for it."""
    needs_skfolio()
    imported = "skfolio" in sys.modules
    data = datasets.sp500()
    assert ("skfolio" in sys.modules) == imported
    assert data.values.shape == (8312, 20) and np.all(np.isfinite(data.values))
    assert (data.dates[0], data.dates[-1]) == (19900103, 20221228)
    assert data.values.min() > -100
    np.testing.assert_array_equal(datasets.sp500(days=10).values, data.values[-10:])


@pytest.mark.slow  # the import of skfolio takes seconds
def test_sp500_is_returns_of_the_prices():
    needs_skfolio()
    from skfolio.datasets import load_sp500_dataset

    prices, data = load_sp500_dataset(), datasets.sp500()
    expected = 100 * prices.pct_change().iloc[1:]
    np.testing.assert_allclose(data.values, expected, rtol=1e-9, atol=1e-11)
    assert data.assets == tuple(prices.columns)
    np.testing.assert_array_equal(data.dates, prices.index[1:].strftime("%Y%m%d").astype(int))


def test_sp500_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'mvrc\[data\]'") as caught:
        datasets.sp500()
    sentence(caught)


# Wrong arguments

WRONG = [
    (datasets.industry30, {"path": 3}, TypeError, "path must be the name of a file"),
    (datasets.read_french, {"path": None}, TypeError, "path must be the name of a file"),
    (datasets.industry30, {"path": "no/such"}, FileNotFoundError, "'no/such' does not exist"),
    (datasets.industry30, {"path": "."}, FileNotFoundError, "'.' has no industry30_daily.csv"),
    (datasets.industry30, {"days": 0}, ValueError, "days must be an integer of at least 1"),
    (datasets.industry38, {"days": 2.5}, ValueError, "days must be an integer"),
    (datasets.industry38, {"known_hash": "abc"}, ValueError, "known_hash must be the 64 hexa"),
    (datasets.industry38, {"day": 3}, TypeError, "did you mean 'days'?"),
    (datasets.housing, {"noise_features": -1}, ValueError, "noise_features must be an integer"),
    (datasets.housing, {"seed": -1}, ValueError, "seed must be an integer of at least 0"),
    (datasets.housing, {"path": "no/such"}, FileNotFoundError, "'no/such' does not exist"),
    (datasets.sp500, {"days": True}, ValueError, "days must be an integer"),
    (datasets.sp500, {"days": 10**6}, ValueError, "days must be at most 8312"),
    (datasets.simulate_industry, {"n": 0}, ValueError, "n must be an integer"),
    (datasets.simulate_industry, {"d": 1.5}, ValueError, "d must be an integer"),
    (datasets.simulate_industry, {"seed": "a"}, ValueError, "seed must be an integer"),
    (datasets.simulate_housing, {"n": None}, ValueError, "n must be an integer"),
    (datasets.simulate_housing, {"noise_features": 0.5}, ValueError, "noise_features must be"),
    (datasets.random_mdp, {"states": 0}, ValueError, "states must be an integer"),
    (datasets.random_mdp, {"features": -2}, ValueError, "features must be an integer"),
    (datasets.random_mdp, {"gamma": 1}, ValueError, "gamma must lie in [0, 1)"),
    (datasets.random_mdp, {"gamma": -0.1}, ValueError, "gamma must lie in [0, 1]"),
    (datasets.random_mdp, {"branching": 0}, ValueError, "branching must be an integer"),
    (datasets.random_mdp, {"branching": 401}, ValueError, "branching must be at most the 400"),
]


@pytest.mark.parametrize(
    ("function", "options", "kind", "text"), WRONG, ids=lambda v: getattr(v, "__name__", None)
)
def test_wrong_argument_gets_a_sentence(alone, function, options, kind, text):
    with pytest.raises(kind) as caught:
        function(**options)
    assert text in sentence(caught)


def test_wrong_variable_gets_a_sentence(alone, monkeypatch):
    monkeypatch.setenv(files.VARIABLE, "no/such/folder")
    with pytest.raises(FileNotFoundError, match="MVRC_DATA must name a folder") as caught:
        datasets.industry30()
    sentence(caught)


GOOD = ",A,B\n20200101,1,2\n20200102,3,4\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a daily file"),
        (GOOD.replace("3,4", "3"), "is not a daily file"),
        (GOOD.replace("3,4", "3,x"), "is not a daily file"),
        (GOOD.replace(",A,B", ",A"), "is not a daily file"),
        (GOOD.replace("202001", "2020"), "is not a daily file"),  # a monthly file
        (",A,B\n20200101,-99.99,-999\n", "has no day"),
    ],
)
def test_other_files_are_no_returns(tmp_path, text, why):
    (tmp_path / "file.csv").write_text(text)
    with pytest.raises(ValueError, match=why) as caught:
        datasets.read_french(tmp_path / "file.csv")
    sentence(caught)


def test_reader_refuses_folders_damaged_zips_and_too_many_days(tmp_path):
    with pytest.raises(FileNotFoundError, match="is a folder") as caught:
        datasets.read_french(tmp_path)
    sentence(caught)
    path, _ = write_zip(tmp_path, days=400)
    with pytest.raises(ValueError, match="days must be at most 400, .* not 401") as caught:
        datasets.read_french(path, days=401)
    sentence(caught)
    path.write_bytes(damaged(path.read_bytes()))
    with pytest.raises(ValueError, match="is a damaged zip file") as caught:
        datasets.read_french(path)
    sentence(caught)
