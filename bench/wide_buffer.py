"""What a wider write buffer in the network engine would save: `wide_buffer.py [--rounds N]`.

The engine writes through a buffer of 8 KiB and has no setting for it. This builds the floor's
program a second time, from a copy of the sources in which the engine's buffer has 64 KiB, and has
both insert vectors with 100 in flight, in turns. Prints processor time per request. All that it
makes is under `build/wide/`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
from pathlib import Path

from clients import data, with_engine
from codec_environments import ROOT
from end_to_end_server import Server

PLACE = ROOT / "build" / "wide"
NARROW, WIDE = "BufWriter::with_capacity(8192", "BufWriter::with_capacity(65536"
IN_FLIGHT, WARM_UP, REQUESTS = 100, 2500, 20_000


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    programs = {"8 KiB": with_engine.PROGRAM, "64 KiB": build()}
    target = str(with_engine.PROGRAM.relative_to(ROOT))
    subprocess.run(["make", "--no-print-directory", target], cwd=ROOT, check=True)
    taken: dict[str, list[float]] = {name: [] for name in programs}
    with Server() as server:
        for salt in range(rounds):
            for name in programs if salt % 2 else reversed(programs):
                taken[name].append(sample(programs[name], server.contact_point, salt))
                server.check_written("vector_written", "vector", REQUESTS, salt)
    for name, of in taken.items():
        spread = f"{min(of):.2f} to {max(of):.2f}"
        print(f"{name}: {statistics.median(of):.2f} us a request ({spread}, {rounds} rounds)")


def build() -> Path:
    """The floor's program with the wide buffer."""
    shutil.rmtree(PLACE / "sources", ignore_errors=True)
    engine = PLACE / "sources" / "engine"
    shutil.copytree(engine_sources(), engine)
    connection = engine / "src" / "network" / "connection.rs"
    text = connection.read_text(encoding="utf-8")
    if text.count(NARROW) != 1:
        raise SystemExit(f"the engine has no single {NARROW} any more: look at {connection}")
    connection.write_text(text.replace(NARROW, WIDE), encoding="utf-8")
    tracked = subprocess.run(
        ["git", "ls-files", "Cargo.*", "build.rs", "src", "crates"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.split("\n")
    workspace = PLACE / "sources" / "workspace"
    for name in filter(None, tracked):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, workspace / name)
    patch = f'patch.crates-io.scylla.path="{engine}"'
    command = ["cargo", "build", "--release", "--package", "turbocql-engine", "--config", patch]
    command += ["--example", "pure_engine", "--target-dir", str(PLACE / "target")]
    subprocess.run(command, cwd=workspace, check=True)
    return PLACE / "target" / "release" / "examples" / "pure_engine"


def engine_sources() -> Path:
    """Where cargo has put them."""
    said = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    packages = json.loads(said)["packages"]
    (manifest,) = (p["manifest_path"] for p in packages if p["name"] == "scylla")
    return Path(manifest).parent


def sample(program: Path, contact_point: str, salt: int) -> float:
    """Microseconds of processor time per request, of one process."""
    passes = [f"2000000:{WARM_UP}", f"0:{REQUESTS}"]
    command = [str(program), contact_point, data.INSERT["vector"], str(salt), str(IN_FLIGHT)]
    ready = b"".join(data.vector_bytes())
    ended = subprocess.run([*command, *passes], input=ready, stdout=subprocess.PIPE, check=True)
    return int(ended.stdout.split()[-2]) / 1000 / REQUESTS


if __name__ == "__main__":
    main()
