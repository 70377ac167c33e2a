"""Tests the benchmark page, its charts and its tables. These tests measure nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from bench.harness.environments import KEPT
from bench.harness.spread import Spread
from bench.report import charts, model, pages, parts
from bench.report.markdown import escaped
from bench.report.tables import growth, requests
from bench.report.tables.accelerator import accelerator_section, codec_rows, tables
from bench.report.tables.codec import codec_section
from bench.report.tables.headline import headline, overview
from bench.report.tables.losses import losses_section
from bench.report.targets.page import is_missed, targets_page
from tests.meta.sources import ROOT

DOCS = ROOT / "docs"
PAGE = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
MACHINE = "this interpreter"


def _codec(client: str, *us: float) -> list[dict[str, Any]]:
    about = {"case": "value: vector<float, 1536>, list", "client": client, "note": ""}
    return [{**about, "interpreter": MACHINE, "ns": each_us * 1000} for each_us in us]


def _requests(client: str, *us: float, note: str = "") -> list[dict[str, Any]]:
    about = {"scenario": "select_text", "shape": "workers", "client": client, "in_flight": 100}
    about |= {"interpreter": MACHINE, "note": note, "requests": 10, "wall_s": 1.0}
    return [{**about, "cpu_s": each_us * 10 / 1e6} for each_us in us]


def test_a_ratio_has_the_spread_of_both() -> None:
    ours, theirs = Spread.of([10.0, 12.0, 16.0]), Spread.of([14.0, 24.0, 40.0])
    ratio = theirs.divided_by(ours)
    assert (ratio.median, ratio.low, ratio.high) == (2, 14 / 16, 4)
    assert ours.overlaps(theirs)
    assert theirs.overlaps(ours)
    assert not ours.overlaps(Spread.of([16.1, 17.0]))


def test_headline_names_the_best_rival_and_says_what_is_within_the_spread() -> None:
    codec = [*_codec("turbocql", 1, 2, 4), *_codec("scylla-driver", 80, 90, 100)]
    codec += _codec("cassandra-driver", 60, 80, 100)
    sent = [*_requests("turbocql", 8, 10, 12), *_requests("engine", 1, 1, 1)]
    sent += [*_requests("acsylla", 11, 13, 15), *_requests("scyllapy", 70, 80, 90)]
    sent += _requests("turbocql-numpy", 1, 1, 1)
    measured = {
        MACHINE: (model.codec_cases(codec, MACHINE), model.end_to_end(sent, MACHINE)),
        "another": ([], []),
    }
    _, _, embedding, request, _, others, _ = headline(measured)
    assert "**40.0 (15.0 to 100)**" in embedding
    assert "cassandra-driver: 80.0 (60.0 to 100)" in embedding
    assert "**1.30 (0.917 to 1.87), within the spread**" in request
    assert "acsylla: 13.0 (11.0 to 15.0)" in request
    assert "100 in flight" in request
    assert others == "The same ratios under another: not measured; not measured."
    assert headline({MACHINE: ([], [])}) == []
    (codec_row, request_row) = overview(*measured[MACHINE])
    assert set(codec_row.rivals) == {"scylla-driver", "cassandra-driver"}
    assert set(request_row.rivals) == {"acsylla", "scyllapy"}


def test_only_losses_within_the_spread_are_folded() -> None:
    outside = model.Loss(
        "a", "CPU, us", Spread.of([5, 6]), "acsylla", Spread.of([3, 4]), "ready bytes"
    )
    within = model.Loss("b", "p50, us", Spread.of([5, 7]), "acsylla", Spread.of([4, 6]))
    sections = losses_section([outside, within], ["c: turbocql failed"])
    before, folded = ("\n".join(lines) for lines in sections)
    assert folded.startswith('<details markdown="1">\n')
    assert folded.rstrip().endswith("</details>")
    assert "Within the spread: 1" in folded
    for shown in ("| a |", "- c: turbocql failed"):
        assert shown in before
        assert shown not in folded
    assert "| b |" in folded
    assert "| b |" not in before
    assert "ready bytes" in before
    assert losses_section([], []) == (["Nothing outside the spread.", ""], [])
    # `escaped` leaves the tags that Markdown needs unchanged, and escapes every other "<".
    assert escaped("<details markdown=1> list<int>") == "<details markdown=1> list&lt;int>"


def test_requests_beyond_the_spread_are_losses_and_the_engine_is_none() -> None:
    samples = [*_requests("turbocql", 10, 11), *_requests("engine", 1, 2)]
    samples += _requests("acsylla", 5, 6, note="ready bytes")
    (loss,) = requests.losses(model.end_to_end(samples, MACHINE))
    assert (loss.figure, loss.rival, loss.note) == ("CPU, us", "acsylla", "ready bytes")
    assert not loss.within


def test_memory_is_compared_with_its_spread() -> None:
    samples = [
        {"series": "s", "n": 10, "interpreter": MACHINE, "client": client, "ns": ns}
        | {"peak_bytes": mebibytes * 2**20}
        for client, ns, peaks in (("turbocql", 1, (3, 5)), ("scylla-driver", 9, (2, 4)))
        for mebibytes in peaks
    ]
    (loss,) = growth.losses(model.growth(samples, MACHINE))
    assert (loss.case, loss.figure, str(loss.theirs)) == (
        "s, n = 10",
        "peak memory, MiB",
        "3.00 (2.00 to 4.00)",
    )
    assert loss.within


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the files that `make docs` writes from the samples in `bench/samples`.

    The overview is the only chart in this folder.
    """
    out = tmp_path_factory.mktemp("measured")
    pages.write(out=out, draws=False)
    (first, *_) = _measured().values()
    charts.overview_chart(overview(*first), out / parts.CHARTS)
    return out


def _measured() -> dict[str, tuple[list[model.CodecCase], list[model.Endpoint]]]:
    kept = model.Samples(KEPT)
    return {
        name: (model.codec_cases(kept.codec, name), model.end_to_end(kept.end_to_end, name))
        for name in model.interpreters([*kept.codec, *kept.end_to_end])
    }


def test_the_page_begins_with_its_picture_and_three_figures() -> None:
    beginning, _, rest = PAGE.partition("\n## ")
    assert beginning.startswith("# Benchmarks\n\n![")
    assert len([line for line in beginning.splitlines() if "| **" in line]) == 3
    assert rest.startswith("How the figures were measured\n")
    day = r"\d{4}-\d\d-\d\d"
    assert re.search(rf" taken from {day} to {day}\. ", " ".join(beginning.split()))


def test_the_page_shows_a_minute_and_folds_the_rest(built: Path) -> None:
    method = PAGE.split("## How the figures were measured\n")[1].split("\n## ")[0]
    assert len(re.findall(r"\.(?= [A-Z`]|\n*$)", " ".join(method.split()))) == 5
    page = (built / "benchmarks.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)", page, re.MULTILINE) == [
        "How the figures were measured",
        "Where turbocql loses",
        "All figures",
    ]
    assert not re.search(r"^### ", page, re.MULTILINE)
    shown = re.sub(r"<details.*?</details>", "", page.split("## All figures")[1], flags=re.DOTALL)
    assert "|" not in shown
    assert "!" not in shown.replace("<!--", "")


def test_the_headline_of_the_page_agrees_with_the_samples(built: Path) -> None:
    assert "\n".join(headline(_measured())).strip() in PAGE
    assert parts.filled(PAGE, {name: parts.read(built)[name] for name in pages.IN_GIT}) == PAGE


@pytest.mark.parametrize("name", ["overview.svg", "overview-dark.svg"])
def test_the_overview_agrees_with_the_samples(built: Path, name: str) -> None:
    """Compares the words of the kept chart with the samples.

    If the installed release of matplotlib also drew the kept chart, the bytes are compared too.
    """
    chart = (DOCS / parts.CHARTS / name).read_text(encoding="utf-8")
    (first, *_) = _measured().values()
    words = escaped(charts.overview_text(overview(*first))).replace(">", "&gt;")
    assert f"<dc:description>{words}</dc:description>" in chart, "python -m bench report --keep"
    if f"Matplotlib v{matplotlib.__version__}," in chart:
        assert chart == (built / parts.CHARTS / name).read_text(encoding="utf-8")


def test_every_placeholder_has_its_figures(built: Path) -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    places = [name for text in texts.values() for name in parts.names(text)]
    assert sorted(places) == sorted(parts.read(built))
    for name in texts:
        if parts.names(texts[name]):
            assert "In this place" not in (built / name).read_text(encoding="utf-8")


def test_a_placeholder_without_figures_names_the_command_and_the_file() -> None:
    empty = 0
    for page in DOCS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for name in set(parts.names(text)) - set(pages.IN_GIT):
            filled = parts.filled(text, {name: "FIGURES"})
            begin = filled.index("FIGURES")
            place = " ".join(text[begin:].partition("<!-- end of measured -->")[0].split())
            assert place.startswith("*In this place the site has "), (page.name, name)
            assert "`python -m bench.report`" in place, (page.name, name)
            assert f"`build/measured/{page.name}`" in place, (page.name, name)
            empty += 1
    assert empty > 5


def test_the_command_of_the_pages_needs_no_native_core() -> None:
    program = "import sys, bench.report.__main__; print('turbocql' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert ran.stdout == "False\n"


def test_the_page_shows_each_chart_for_light_and_for_dark(built: Path) -> None:
    page = parts.themed((built / "benchmarks.md").read_text(encoding="utf-8"))
    assert "Where turbocql loses\n\n<!-- measured: losses -->" in page
    shown = re.findall(rf"\({parts.CHARTS}/([\w-]+)\.svg#only-(light|dark)\)", page)
    light = [name for name, theme in shown if theme == "light"]
    assert [name for name, theme in shown if theme == "dark"] == [f"{name}-dark" for name in light]
    assert len(set(light)) == len(light) == 10
    drawn = {path.stem for path in (built / parts.CHARTS).iterdir()}
    assert drawn == {
        f"overview{width}{theme}" for width in ("", "-narrow") for theme in ("", "-dark")
    }


def test_the_overview_has_a_version_for_each_width_and_theme() -> None:
    page = parts.themed("![In words](benchmarks/overview.svg)\n", "../")
    assert re.findall(r' alt="([^"]*)"', page) == ["In words"] * 2
    assert re.findall(r'src(?:set)?="\.\./benchmarks/([^"]+)"', page) == [
        "overview-narrow.svg",
        "overview.svg#only-light",
        "overview-narrow-dark.svg",
        "overview-dark.svg#only-dark",
    ]


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", DOCS / "index.md"], ids=lambda path: path.name
)
def test_the_accelerators_gain_on_pages_agrees_with_the_samples(page: Path) -> None:
    samples = model.Samples(KEPT).accelerator
    ratios = {
        row.name: row.ratio
        for rows in (
            codec_rows(samples),
            tables(samples)["Requests to a server, us of client processor time each"],
        )
        for row in rows
        if row.driver == model.STOCK
    }
    text = " ".join(page.read_text(encoding="utf-8").split())
    gain = f"{ratios['bind: 10 mixed, sequence']:.1f}"
    assert f"binds a row of ten columns {gain} times as fast, and" in text
    assert "an insert by `execute_async` takes a third of the processor time" in text
    assert 2.7 < ratios["insert_text, callbacks"] < 3.5


def test_targets_are_printed_and_on_no_page(built: Path) -> None:
    for text in [PAGE, *parts.read(built).values()]:
        assert not re.search(r"\btargets?\b|Missed|In flight:|No profile", text)
    printed = "\n".join(targets_page(KEPT))
    for word in ("Targets met: ", "### Missed: ", "### In flight: ", "### Growth: ", "wanted 10x"):
        assert word in printed
    codec, _ = next(iter(_measured().values()))
    assert codec_section(codec)[0].endswith("| ratio to scylla-driver | floor |")


def test_a_missed_target_fails_the_check(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "bench", "report", "--targets", "--samples", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert (ran.returncode, ran.stdout) == (0, "\n")
    missed = [line for line in targets_page(KEPT) if is_missed(line)]
    assert "### Missed: scan, numpy" in missed
    assert not [line for line in missed if "| yes |" in line]


def test_a_case_that_the_accelerator_makes_slower_is_listed() -> None:
    about = {"client": "scylla-driver", "version": "1", "date": "2026-11-23"}
    samples = [
        {**about, "case": case, "plain_ns": 1000, "accelerated_ns": ns}
        for case, ns in (("bind: 1 int", 2000), ("bind: 10 ints", 500), ("value: int", 2000))
    ]
    text = "\n".join(accelerator_section(samples))
    assert text.count("- ") == 1
    assert "- bind: 1 int, scylla-driver: 0.500x" in text
    assert "Left to the driver, so that a difference is noise: value: int." in text
