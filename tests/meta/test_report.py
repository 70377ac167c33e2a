"""The page of benchmarks: what it begins with, and which losses fold away. Measures nothing."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from tests.meta.sources import ROOT

PAGE = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
MACHINE = "this interpreter"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the report; none of these needs more than the standard library."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module


def _codec(client: str, *us: float) -> list[dict[str, Any]]:
    about = {"case": "value: vector<float, 1536>, list", "client": client, "note": ""}
    return [{**about, "interpreter": MACHINE, "ns": one * 1000} for one in us]


def _requests(client: str, *us: float, note: str = "") -> list[dict[str, Any]]:
    about = {"scenario": "select_text", "shape": "workers", "client": client, "in_flight": 100}
    about |= {"interpreter": MACHINE, "note": note, "requests": 10, "wall_s": 1.0}
    return [{**about, "cpu_s": one * 10 / 1e6} for one in us]


def test_a_ratio_has_the_spread_of_both(bench: Any) -> None:
    data = bench("report_data")
    ours, theirs = data.Spread.of([10.0, 12.0, 16.0]), data.Spread.of([14.0, 24.0, 40.0])
    ratio = theirs.divided_by(ours)
    assert (ratio.median, ratio.low, ratio.high) == (2, 14 / 16, 4)
    assert ours.overlaps(theirs)
    assert theirs.overlaps(ours)
    assert not ours.overlaps(data.Spread.of([16.1, 17.0]))


def test_headline_names_the_best_rival_and_says_what_is_within_the_spread(bench: Any) -> None:
    data, headline = bench("report_data"), bench("report_headline")
    codec = [*_codec("turbocql", 1, 2, 4), *_codec("scylla-driver", 80, 90, 100)]
    codec += _codec("cassandra-driver", 60, 80, 100)
    requests = [*_requests("turbocql", 8, 10, 12), *_requests("engine", 1, 1, 1)]
    requests += [*_requests("acsylla", 11, 13, 15), *_requests("scyllapy", 70, 80, 90)]
    requests += _requests("turbocql-numpy", 1, 1, 1)
    measured = {
        MACHINE: (data.codec_cases(codec, MACHINE), data.end_to_end(requests, MACHINE)),
        "another": ([], []),
    }
    _, _, embedding, request, _ = headline.headline(measured)
    assert "**40.0 (15.0 to 100)**" in embedding
    assert "cassandra-driver: 80.0 (60.0 to 100)" in embedding
    assert "**1.30 (0.917 to 1.87), within the spread**" in request
    assert "acsylla: 13.0 (11.0 to 15.0)" in request
    assert "100 in flight" in request
    assert request.endswith("| not measured |")
    assert headline.headline({MACHINE: ([], [])}) == []
    (codec_row, request_row) = headline.overview(*measured[MACHINE])
    assert set(codec_row.rivals) == {"scylla-driver", "cassandra-driver"}
    assert set(request_row.rivals) == {"acsylla", "scyllapy"}


def test_only_what_is_within_the_spread_folds_away(bench: Any) -> None:
    data, losses = bench("report_data"), bench("report_losses")
    outside = data.Loss(
        "a", "CPU, us", data.Spread.of([5, 6]), "acsylla", data.Spread.of([3, 4]), "ready bytes"
    )
    within = data.Loss("b", "p50, us", data.Spread.of([5, 7]), "acsylla", data.Spread.of([4, 6]))
    missed = [data.Shortfall("the target of c"), data.Shortfall("the target of d", within=True)]
    text = "\n".join(losses.losses_section([outside, within], missed))
    before, opened, folded = text.partition('<details markdown="1">\n')
    assert opened
    assert folded.rstrip().endswith("</details>")
    assert "Within the spread: 2" in folded
    for shown, hidden in (("| a |", "| b |"), ("target of c", "target of d")):
        assert shown in before
        assert shown not in folded
        assert hidden in folded
        assert hidden not in before
    assert "ready bytes" in before
    assert losses.losses_section([], []) == ["Nothing outside the spread.", ""]
    # Tags for Markdown stay, others become text.
    assert data.escaped("<details markdown=1> list<int>") == "<details markdown=1> list&lt;int>"


def test_requests_beyond_the_spread_are_losses_and_the_engine_is_none(bench: Any) -> None:
    data, requests = bench("report_data"), bench("report_end_to_end")
    samples = [*_requests("turbocql", 10, 11), *_requests("engine", 1, 2)]
    samples += _requests("acsylla", 5, 6, note="ready bytes")
    (loss,) = requests.losses(data.end_to_end(samples, MACHINE))
    assert (loss.figure, loss.rival, loss.note) == ("CPU, us", "acsylla", "ready bytes")
    assert not loss.within


def test_memory_is_compared_with_its_spread(bench: Any) -> None:
    data, growth = bench("report_data"), bench("report_growth")
    samples = [
        {"series": "s", "n": 10, "interpreter": MACHINE, "client": client, "ns": ns}
        | {"peak_bytes": mebibytes * 2**20}
        for client, ns, peaks in (("turbocql", 1, (3, 5)), ("scylla-driver", 9, (2, 4)))
        for mebibytes in peaks
    ]
    (loss,) = growth.losses(data.growth(samples, MACHINE))
    assert (loss.case, loss.figure, str(loss.theirs)) == (
        "s, n = 10",
        "peak memory, MiB",
        "3.00 (2.00 to 4.00)",
    )
    assert loss.within


def test_the_page_begins_with_its_picture_and_three_figures() -> None:
    beginning, _, rest = PAGE.partition("\n## ")
    assert beginning.startswith("# Benchmarks\n\n![")
    assert len([line for line in beginning.splitlines() if "| **" in line]) == 3
    assert rest.startswith("How the figures were measured\n")


def test_the_page_gives_its_headline_as_the_samples_do(bench: Any) -> None:
    data, headline = bench("report_data"), bench("report_headline")
    samples = bench("codec_environments").read_samples
    place = ROOT / "bench" / "samples"
    codec, requests = samples(place / "codec.jsonl"), samples(place / "end_to_end.jsonl")
    measured = {
        name: (data.codec_cases(codec, name), data.end_to_end(requests, name))
        for name in data.interpreters([*codec, *requests])
    }
    assert "\n".join(headline.headline(measured)) in PAGE
