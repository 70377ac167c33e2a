"""The targets, and the rules that decide whether one is met.

The targets were set on one machine, and other machines are slower or faster. So turbocql meets the
target of a codec case if one of three conditions holds. First, scylla-driver's time in the same run
is at least `wanted_ratio` times turbocql's. Second, turbocql needs at most `floor_factor` times the
floor that was measured in the same run. Third, turbocql needs at most `target_us`.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "ACCELERATOR",
    "CODEC",
    "END_TO_END",
    "Columns",
    "EndToEnd",
    "Target",
    "Verdict",
    "judge",
]

FLOOR_FACTOR = 1.3


@dataclass(frozen=True)
class Target:
    """The target of one case of the codec. Times are in microseconds."""

    stock_us: float | None
    """scylla-driver's time when the target was set; None if it was not measured then."""
    target_us: float | None
    rule: str = ""
    ratio: float | None = None
    """The wanted ratio to scylla-driver, if the rule names a ratio instead of a time."""
    floor_factor: float = FLOOR_FACTOR
    floor_note: str = ""
    """Only floors whose note begins with this text count. The fastest of them decides."""

    @property
    def wanted_ratio(self) -> float | None:
        """The ratio to scylla-driver that meets the target."""
        if self.ratio is not None:
            return self.ratio
        if self.stock_us is None or self.target_us is None:
            return None
        return self.stock_us / self.target_us

    @property
    def text(self) -> str:
        """The target in words."""
        parts = [] if self.target_us is None else [f"{self.target_us:g} us"]
        return "; ".join([*parts, self.rule] if self.rule else parts)


@dataclass(frozen=True)
class Verdict:
    """Says whether a target was met. `how` has the figures, or names what was not measured."""

    met: bool
    how: str
    only_by_floor: bool = False
    """Whether the target was met only by the floor, not by the ratio or the time."""
    measured: bool = True
    """False if a needed figure was not measured. Then the target is neither met nor missed."""

    @property
    def word(self) -> str:
        """The text for the column `met`."""
        return ("yes" if self.met else "**no**") if self.measured else "not measured"

    @property
    def missed(self) -> bool:
        """Whether the target was judged and not met."""
        return self.measured and not self.met


_ARRAY = "at most 2x `bytes(ndarray)`"
_SCALAR = Target(0.04, None, "not above stock", ratio=1.0)
_MEASURED = Target(None, None, "3 times as fast as stock, or at most 1.3x the floor", ratio=3.0)

CODEC: dict[str, Target] = {
    "value: vector<float, 1536>, float32 ndarray": Target(
        129, 0.33, _ARRAY, floor_factor=2.0, floor_note="`bytes(ndarray)`"
    ),
    "value: vector<float, 768>, float32 ndarray": Target(66, 0.21),
    "value: vector<float, 128>, float32 ndarray": Target(12.3, 0.11),
    "value: vector<float, 1536>, float64 ndarray": Target(122, 0.8),
    "value: vector<float, 1536>, list": Target(92, 1.6),
    "value: vector<float, 1536>, tuple": Target(92, 1.6),
    "value: vector<float, 128>, list": Target(8.7, 0.2),
    "value: vector<int, 1536>, list": Target(107, 3.5),
    "value: vector<int, 1536>, int32 ndarray": Target(160, 0.33),
    "value: vector<double, 1536>, list": Target(92, 1.6),
    "value: vector<double, 1536>, ndarray": Target(121, 0.6),
    "value: list<int> of 10": Target(1.84, 0.1),
    "value: list<int> of 100": Target(15.6, 0.4),
    "value: list<int> of 1000": Target(145, 3.2),
    "value: list<int> of 100, half null": Target(10.2, 0.3),
    "value: set<text> of 100": Target(16.4, 1.3),
    "value: map<text, int> of 10": Target(3.7, 0.22),
    "value: map<text, int> of 100": Target(31.5, 1.9),
    "value: tuple of 10": Target(2.19, 0.25),
    "value: tuple of 5 nulls": Target(0.58, 0.07),
    "value: UDT of 5": Target(1.31, 0.18),
    "value: list<map<text, list<int>>> 10x5x10": Target(129, 5),
    "value: int": _SCALAR,
    "value: bigint": _SCALAR,
    "value: double": _SCALAR,
    "value: text": _SCALAR,
    "value: blob": _SCALAR,
    "value: boolean": _SCALAR,
    "value: timestamp, datetime": _MEASURED,
    "value: varint, small": _MEASURED,
    "value: varint, 300 bit": _MEASURED,
    "value: decimal": _MEASURED,
    "value: uuid": _MEASURED,
    "bind: 1 int": Target(1.06, 0.12),
    "bind: (int, text)": Target(1.40, 0.16),
    "bind: 10 ints": Target(3.7, 0.28),
    "bind: 10 mixed, sequence": Target(7.4, 0.8),
    "bind: 10 mixed, dict": Target(7.5, 0.95),
    "bind: (int, vector 1536), ndarray": Target(130, 0.45),
    "bind: (int, vector 1536), read-only ndarray": Target(130, 0.45),
    "bind: (int, vector 1536), list": Target(95, 1.8),
    "routing key: 3 parts": Target(1.0, 0.11),
    "routing key: (200 bytes, int)": Target(0.82, 0.11),
    "batch body: 10x2 vectors of 128": Target(4.75, 0.7),
    "batch body: 50x2 vectors of 128": Target(18.8, 3),
    "batch body: 10x10 text": Target(10.4, 1.3),
    "batch body: 50x10 text": Target(45.9, 5.5),
    "batch body: unprepared 10x2": Target(5.0, 0.8),
    "execute body: 12 mixed": Target(2.13, 0.3),
    "decode: vector<float, 1536> to list": Target(228, 13),
    "decode: vector<float, 1536> to NumPy": Target(228, 0.6),
    "page: 5000x10 to tuples": Target(5800, 1600),
    "page: 5000x10 to named": Target(6700, 2000),
    "page: 5000x10 to dicts": Target(7800, 2400),
    "page: 5000x6 to tuples": Target(1110, 600),
    "page: 1x10 with metadata, tuples": Target(19, 1.8),
    "page: 1x10 with metadata, named": Target(58, 2.2),
}


def judge(
    target: Target, ours_ns: float, stock_ns: float | None, floors_ns: dict[str, float]
) -> Verdict:
    """Judges a case by the medians of one run. `floors_ns` maps notes of floors to their times."""
    ways = []
    least_ratio = target.wanted_ratio
    if least_ratio is not None and stock_ns is not None and stock_ns >= least_ratio * ours_ns:
        ways.append(f"ratio {stock_ns / ours_ns:.3g}, wanted {least_ratio:.3g}")
    meant = [ns for note, ns in floors_ns.items() if note.startswith(target.floor_note)]
    if meant and ours_ns <= target.floor_factor * min(meant):
        ways.append(_beside_floor(ours_ns, min(meant)))
    if target.target_us is not None and ours_ns <= target.target_us * 1000:
        ways.append(f"{ours_ns / 1000:,.4g} us")
    if ways:
        only = bool(meant) and ways == [_beside_floor(ours_ns, min(meant))]
        return Verdict(True, "; ".join(ways), only)
    if least_ratio is not None and stock_ns is None:
        return Verdict(False, "scylla-driver was not measured", measured=False)
    misses = []
    if least_ratio is not None and stock_ns is not None:
        misses.append(f"ratio {stock_ns / ours_ns:.3g}, wanted {least_ratio:.3g}")
    if meant:
        misses.append(_beside_floor(ours_ns, min(meant)))
    return Verdict(False, "; ".join(misses))


def _beside_floor(ours_ns: float, floor_ns: float) -> str:
    return f"{ours_ns / floor_ns:.2g}x the floor"


@dataclass(frozen=True)
class EndToEnd:
    """A target for the client's processor time per request, in one scenario and one shape."""

    scenario: str
    shape: str
    below: str = ""
    """The target is met if turbocql needs less time than this client in the same run and shape. If
    no client is named, turbocql's time, its ratio to scylla-driver or the floor decides."""
    about_us: float | None = None
    stock_us: float | None = None
    """scylla-driver's time when the target was set, in the best of `stock_shapes`."""
    stock_shapes: tuple[str, ...] = ()
    limit: str = ""
    """The reason why the target is missed, if it is known."""
    floor_shapes: tuple[str, ...] = ()
    """The shapes in which the floor is measured; the fastest shape counts. If there are none, the
    floor is measured in the target's own shape."""
    floor_client: str = "engine"

    @property
    def text(self) -> str:
        """The target in words."""
        about = "" if self.about_us is None else f"{self.about_us:g} us"
        if self.below:
            note = f" (about {about} on the machine where the target was set)" if about else ""
            return f"below {self.below}{note}"
        if self.stock_us is not None and self.about_us is not None:
            about += f", or {self.stock_us / self.about_us:.3g}x as fast as scylla-driver"
        return about

    def judge(
        self,
        ours_us: float,
        rival_us: float | None,
        stock_us: float | None,
        floor_us: float | None = None,
    ) -> Verdict:
        """Judges by the medians of turbocql, the client `below`, scylla-driver and the floor."""
        if self.below:
            if rival_us is None:
                return Verdict(False, f"{self.below} was not measured", measured=False)
            how = f"{rival_us / ours_us:.3g}x as fast as {self.below}"
            return Verdict(ours_us < rival_us, how)
        if self.about_us is None:
            return Verdict(True, "no target")
        ways = [f"{ours_us:.3g} us"] if ours_us <= self.about_us else []
        how = f"{ours_us:.3g} us"
        if self.stock_us is not None and stock_us is not None:
            least_ratio = self.stock_us / self.about_us
            how = f"ratio {stock_us / ours_us:.3g}, wanted {least_ratio:.3g}"
            if stock_us >= least_ratio * ours_us:
                ways.append(how)
        elif self.stock_us is not None and not ways:
            return Verdict(False, "scylla-driver was not measured", measured=False)
        if floor_us is None:
            return Verdict(bool(ways), "; ".join(ways) or how)
        beside = f"{_beside_floor(ours_us, floor_us)} of {floor_us:.3g} us"
        met = bool(ways) or ours_us <= FLOOR_FACTOR * floor_us
        return Verdict(met, "; ".join([*(ways or [how]), beside]), met and not ways)


@dataclass(frozen=True)
class Columns(EndToEnd):
    """A target for the client's processor time per row, in a case of the suite `columns`.

    If `about_us` or `ratio` is set, at least one of them must be reached. If `floor_factor` is set,
    the time must be at most this multiple of the floor.
    """

    ratio: float | None = None
    """The wanted ratio to scylla-driver."""
    floor_factor: float | None = None
    """The highest allowed multiple of the floor."""
    floor_client: str = "turbocql-raw"

    @property
    def text(self) -> str:
        """The target in words."""
        ways = [] if self.about_us is None else [f"{self.about_us * 1000:g} ns"]
        if self.ratio is not None:
            shapes = " or ".join(self.stock_shapes)
            ways.append(f"{self.ratio:g}x as fast as scylla-driver ({shapes})")
        parts = [", or ".join(ways)] if ways else []
        if self.floor_factor is not None:
            floors = " or ".join(self.floor_shapes)
            parts.append(f"at most {self.floor_factor:g}x the floor ({floors})")
        return "; ".join(parts)

    def judge(
        self,
        ours_us: float,
        rival_us: float | None,
        stock_us: float | None,
        floor_us: float | None = None,
    ) -> Verdict:
        """Judges the target by the medians of one run."""
        parts, held = [], []
        fast = self.about_us is not None and ours_us <= self.about_us
        if self.about_us is not None:
            parts.append(f"{ours_us * 1000:.3g} ns")
        if self.ratio is not None:
            if stock_us is not None:
                parts.append(f"ratio {stock_us / ours_us:.3g}, wanted {self.ratio:g}")
                fast = fast or stock_us >= self.ratio * ours_us
            elif not fast:
                return Verdict(False, "scylla-driver was not measured", measured=False)
        if self.about_us is not None or self.ratio is not None:
            held.append(fast)
        if self.floor_factor is not None:
            if floor_us is None:
                return Verdict(False, "the floor was not measured", measured=False)
            parts.append(f"{_beside_floor(ours_us, floor_us)} of {floor_us:.3g} us")
            held.append(ours_us <= self.floor_factor * floor_us)
        return Verdict(all(held), "; ".join(parts))


_WRITES = (
    "The published crate scylla 1.9.0 writes through a buffer of 8 KiB, and has no setting for its "
    "size. So one system call sends about two frames of this scenario; acsylla sends all ready "
    "frames in one call. With this buffer, `perf stat` counted the system calls for 26,500 "
    "requests: turbocql made 13,818 `sendto`, the engine called from Rust 11,922, and acsylla "
    "2,525 `writev`. With the buffer of 64 KiB of `edits/buffers.patch`, the engine called from "
    "Rust needs 7.4 us instead of 9.1."
)

_RECEIVED = (
    "This target allows scylla-driver's time divided by the wanted ratio. The floor *raw*, which "
    "receives the pages and decodes nothing, takes nearly all of this time. scylla-driver's time "
    "fell to a third after two changes of the benchmark: each process begins with two whole scans, "
    "and NumPy's threads for linear algebra, which spin after the import, are switched off."
)
_FRESH = (
    "The vectors go into one new array of 61 MB, whose memory the kernel clears first. NumPy's "
    "`byteswap` into a new array alone takes 0.55 us a row (*byteswap*). The floor's time and this "
    "time together are 1.6 times the floor. Without huge pages, turbocql's time was 4.8 times the "
    "floor."
)

END_TO_END: list[EndToEnd] = [
    EndToEnd("insert_text", "workers", below="acsylla", about_us=5),
    EndToEnd("insert_text", "tasks", below="acsylla", about_us=12),
    EndToEnd("select_text", "workers", below="acsylla"),
    EndToEnd("select_text", "tasks", below="acsylla"),
    EndToEnd("insert_vector", "workers", below="acsylla", limit=_WRITES),
    EndToEnd("insert_vector", "tasks", below="acsylla", limit=_WRITES),
    EndToEnd("bulk_text", "bulk", about_us=3, stock_us=80, stock_shapes=("bulk",)),
    EndToEnd("bulk_vector", "bulk", about_us=5, stock_us=170, stock_shapes=("bulk",)),
    EndToEnd("scan", "tuples", about_us=0.4, stock_us=0.64, stock_shapes=("tuples",)),
    Columns("page", "arrow", about_us=0.04, ratio=10, stock_shapes=("tuples",)),
    Columns("page_vector", "arrow", floor_factor=1.5, floor_shapes=("byteswap",)),
    *(
        Columns(
            *("scan", shape),
            ratio=8,
            stock_shapes=("tuples",),
            floor_factor=1.5,
            floor_shapes=(floor,),
            limit=_RECEIVED,
        )
        for shape, floor in (("stream", "raw"), ("arrow", "kept"))
    ),
    *(
        Columns("scan", shape, ratio=6, stock_shapes=("numpy", "pandas"), limit=_RECEIVED)
        for shape in ("pandas", "polars", "numpy")
    ),
    Columns("scan_vector", "numpy", floor_factor=1.5, floor_shapes=("raw",), limit=_FRESH),
    Columns("load_vector", "arrow", floor_factor=1.15, floor_shapes=("blobs", "ready")),
    Columns("load_mixed", "arrow", floor_factor=1.25, floor_shapes=("blobs", "ready")),
]
"""Times are per request; for a scan, a page or a load, they are per row. The benchmark passes
vectors to acsylla as bytes that are already encoded.
"""

ACCELERATOR: dict[str, float] = {
    "bind: (int, vector 1536), ndarray": 100,
    "bind: (int, vector 1536), list": 25,
    "bind: 10 ints": 4,
    "bind: 10 mixed, sequence": 4,
    "bind: 10 mixed, dict": 4,
    "value: list<int> of 100": 12,
    "value: set<text> of 100": 12,
    "value: map<text, int> of 100": 12,
    "value: tuple of 10": 6,
    "value: UDT of 5": 6,
    "batch body: 10x2 vectors of 128": 5,
    "batch body: 10x10 text": 5,
    "batch body: 50x10 text": 5,
    "batch, extensions: 10x10 text": 5,
    "batch, extensions: 50x10 text": 5,
    "routing key: 3 parts": 3,
    "page: 5000x10 to tuples": 2,
    "page: 5000x10 to named": 2,
    "page: 5000x10 to dicts": 2,
    "page: 1x10 with metadata, named": 8,
    "query plan: TokenAwarePolicy, first host": 4,
    "query plan: TokenAwarePolicy, all hosts": 4,
    "insert_text, callbacks": 2,
    "insert_text, concurrent": 1.8,
    "insert_text, sync": 2,
    "model_create, sync": 2.5,
    "model_read, sync": 2.5,
    "insert_vector ndarray, callbacks": 2.2,
    "insert_vector ndarray, concurrent": 1.8,
    "select_text named, callbacks": 4,
    "select_text named, concurrent": 4,
    "insert_vector ndarray above insert_text, callbacks": 10,
    "insert_vector ndarray above insert_text, concurrent": 10,
}
"""Maps a case to the wanted ratio of its plain time to its accelerated time. For cases that are not
listed here, the wanted ratio is 1."""
