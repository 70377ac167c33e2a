#!/usr/bin/env python3
"""Builds the sdist into dist/. With --vendor, also builds one that contains all crates.

The second one, `turbocql-VERSION-vendored.tar.gz`, is for builds without a network: it has the
crates' sources in `vendor`. Every build runs scripts/edited_crates.py, which takes the sources from
`vendor`, and configures cargo to do the same. pip still needs an installed maturin:

    pip install --no-build-isolation --no-index turbocql-VERSION-vendored.tar.gz

PyPI gets only the first one. sdist.py needs the environment of requirements/wheels.txt.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from interpreters import CLEAN, fail

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"


def main() -> int:
    """Builds the sdist, and with --vendor also the second one. Returns the exit status."""
    if sys.argv[1:] not in ([], ["--vendor"]):
        fail(f"usage: {sys.argv[0]} [--vendor]")
    with tempfile.TemporaryDirectory(prefix="turbocql-sdist-") as folder:
        maturin = Path(sys.executable).with_name("maturin")
        run([str(maturin), "sdist", "--out", folder], cwd=ROOT)
        (sdist,) = Path(folder).glob("*.tar.gz")
        DIST.mkdir(exist_ok=True)
        (DIST / sdist.name).write_bytes(sdist.read_bytes())
        print(DIST / sdist.name)
        if sys.argv[1:]:
            print(vendored(sdist, Path(folder)))
    return 0


def vendored(sdist: Path, folder: Path) -> Path:
    """Makes and checks the sdist that contains the crates' sources. Works in `folder`. Returns the
    path of the new sdist, which is in dist/.
    """
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    name = sdist.name.removesuffix(".tar.gz")
    source = folder / name
    # Cargo runs in `folder`, where the checkout's cargo configuration does not apply. That
    # configuration replaces some crates by edited copies, but the sdist needs the original sources.
    command = ["cargo", "vendor", "--quiet", "--locked", "--versioned-dirs"]
    run([*command, "--manifest-path", str(source / "Cargo.toml"), str(source / "vendor")], folder)
    check(source, folder)
    target = DIST / f"{name}-vendored.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        archive.add(source, name, filter=without_owner)
    return target


def without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Removes the name and the id of this machine's user from a member of an archive, and returns
    the member. Returns `None` for files that `check` has written, so that the archive lacks them.
    """
    if {".cargo", "build"} & set(Path(member.name).parts[1:2]):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def check(source: Path, folder: Path) -> None:
    """Checks that scripts/edited_crates.py and cargo find all crates in `vendor`, without a
    registry.

    Raises: SystemExit, if they cannot.
    """
    empty = {"CARGO_HOME": str(folder / "empty"), "CARGO_NET_OFFLINE": "true"}
    run([sys.executable, "scripts/edited_crates.py"], source, empty)
    run(["cargo", "tree", "--locked", "--quiet", "--prefix=none"], source, empty)


def run(command: list[str], cwd: Path, environment: dict[str, str] | None = None) -> None:
    """Runs a command. If it fails, shows its output and raises SystemExit."""
    env = {**CLEAN, **(environment or {})}
    ran = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    if ran.returncode:
        fail(f"{' '.join(command)} failed:\n{ran.stdout}{ran.stderr}")


if __name__ == "__main__":
    sys.exit(main())
