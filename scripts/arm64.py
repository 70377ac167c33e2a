#!/usr/bin/env python3
"""Tests an aarch64 wheel on x86-64, under qemu's user emulation: arm64.py WHEEL PYTEST_ARGUMENTS...

The script makes build/arm64/VERSION, with Debian's CPython for arm64 and an environment. The
environment has the wheel and the packages of requirements/arm64.txt. Its `bin/python` is a shell
script that calls qemu, so programs that tests start with `sys.executable` are emulated too. Java
runs natively. arm64.py needs Debian's packages debootstrap and qemu-user-static, and root rights
for debootstrap.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from interpreters import CLEAN, fail

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "build" / "arm64"
QEMU = "qemu-aarch64-static"
RELEASES = {"3.11": "bookworm", "3.13": "trixie"}
"""Maps a version of CPython to the release of Debian that has it."""
TAGS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")


def can_run(version: str) -> str | None:
    """Returns why this machine cannot run this version for arm64, or `None` if it can."""
    if version not in RELEASES:
        return f"Debian has no CPython {version} for arm64 here"
    missing = [name for name in (QEMU, "debootstrap") if shutil.which(name) is None]
    return f"{' and '.join(missing)} not installed" if missing else None


def environment(version: str, wheel: Path, requirements: Path | None = None) -> str:
    """Makes the environment with only this wheel and the requirements. Returns its interpreter."""
    root = system(version)
    folder = PLACE / version / "env"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    interpreter = f"{root}/usr/bin/python{version}"
    python = folder / "bin" / "python"
    # CPython takes the path of its executable from `argv[0]`, and looks for `pyvenv.cfg` in the
    # executable's folder and in its parent. So qemu passes the path of `bin/python` as `argv[0]`.
    python.write_text(f'#!/bin/sh\nexec {QEMU} -L {root} -0 "$0" {interpreter} "$@"\n')
    python.chmod(0o755)
    (folder / "pyvenv.cfg").write_text(
        f"home = {root}/usr/bin\ninclude-system-site-packages = false\nversion = {version}\n"
    )
    packages = folder / "lib" / f"python{version}" / "site-packages"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    pip += ["--target", str(packages), "--only-binary=:all:", "--python-version", version]
    pip += [f"--platform={tag}" for tag in TAGS]
    run([*pip, "--no-index", "--no-deps", str(wheel)])
    # With --target, pip also puts the wheel's `purelib` files, such as a `.pth`, into `packages`.
    if requirements is not None:
        run([*pip, "--no-deps", "-r", str(requirements)])
    return str(python)


def system(version: str) -> Path:
    """Returns the folder with Debian's CPython of this version. Makes it on first use."""
    root = PLACE / version / "root"
    if not (root / "usr" / "bin" / f"python{version}").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        command = ["debootstrap", "--arch=arm64", "--foreign", "--variant=minbase"]
        run([*command, "--include=python3", RELEASES[version], str(root)])
        # Only the files are needed. debootstrap's second stage would also configure a system.
        for package in sorted((root / "var" / "cache" / "apt" / "archives").glob("*.deb")):
            run(["dpkg", "-x", str(package), str(root)])
            package.unlink()
    return root


def run(command: list[str]) -> None:
    """Runs a command. Raises SystemExit if it fails."""
    ran = subprocess.run(command, env=CLEAN, capture_output=True, text=True)
    if ran.returncode:
        fail(f"{' '.join(command)} failed:\n{ran.stdout}{ran.stderr}")


def main() -> int:
    """Runs this checkout's tests against the wheel. Returns the exit status."""
    wheel = Path(sys.argv[1])
    tag = re.search(r"-cp3(\d+)-.*aarch64", wheel.name)
    version = f"3.{tag[1]}" if tag else fail(f"{wheel.name} is no wheel for aarch64")
    reason = can_run(version)
    if reason:
        fail(reason)
    python = environment(version, wheel, ROOT / "requirements" / "arm64.txt")
    return subprocess.run([python, "-m", "pytest", *sys.argv[2:]], cwd=ROOT, env=CLEAN).returncode


if __name__ == "__main__":
    sys.exit(main())
