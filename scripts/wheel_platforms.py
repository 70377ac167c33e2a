"""The platforms for which zig cross-compiles wheels, and the checks of such wheels.

The module needs the environment of requirements/wheels.txt.
"""

from __future__ import annotations

import functools
import io
import json
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from interpreters import fail

MAX_BYTES = 25_000_000
"""A wheel above this size contains debug information or a second core."""


@dataclass(frozen=True)
class Platform:
    """A platform of wheels."""

    tag: str
    triple: str
    """Rust's name of the platform."""
    machine: str
    """The machine in the ELF header."""

    @property
    def policy(self) -> str:
        """The tag without the processor, for maturin's option `--compatibility`."""
        return self.tag.removesuffix(f"_{self.triple.partition('-')[0]}")

    @property
    def is_musl(self) -> bool:
        """Whether the C library is musl, not glibc."""
        return self.triple.endswith("-musl")


# manylinux2014 has glibc 2.17, the oldest one with which Rust's standard library runs.
PLATFORMS = {
    platform.tag: platform
    for platform in (
        Platform("manylinux2014_x86_64", "x86_64-unknown-linux-gnu", "EM_X86_64"),
        Platform("manylinux2014_aarch64", "aarch64-unknown-linux-gnu", "EM_AARCH64"),
        Platform("musllinux_1_2_x86_64", "x86_64-unknown-linux-musl", "EM_X86_64"),
        Platform("musllinux_1_2_aarch64", "aarch64-unknown-linux-musl", "EM_AARCH64"),
    )
}

FLOOR = (2, 17)
"""The version of glibc of manylinux2014."""
LIBRARIES = {"libc", "libm", "libpthread", "libdl", "librt", "ld-linux-x86-64", "ld-linux-aarch64"}
YOUNGER = {
    *("_Fork", "gettid", "reallocarray", "tcgetwinsize", "tcsetwinsize", "qsort_r"),
    *("pthread_getname_np", "statx", "preadv2", "pwritev2", "posix_getdents", "renameat2"),
}
"""Functions that musl got after 1.2.0. Systems of musllinux_1_2 may have musl 1.2.0."""


def chosen(names: str) -> list[Platform]:
    """Returns the platforms of a list of tags, separated by spaces.

    Raises: SystemExit, for a tag that is not in `PLATFORMS`.
    """
    unknown = [name for name in names.split() if name not in PLATFORMS]
    if unknown:
        fail(f"WHEELS_TARGETS: {unknown[0]} is none of {', '.join(PLATFORMS)}")
    return [PLATFORMS[name] for name in names.split()]


def check_core(wheel: Path, platform: Platform) -> str:
    """Checks the native core's machine, libraries and symbols. Returns the C library that it needs.

    Raises: SystemExit, if the core cannot run on the platform's oldest systems.
    """
    with zipfile.ZipFile(wheel) as archive:
        (core,) = (name for name in archive.namelist() if name.endswith(".so"))
        elf = ELFFile(io.BytesIO(archive.read(core)))
    if elf["e_machine"] != platform.machine:
        fail(f"{wheel.name}: its core is for {elf['e_machine']}")
    dynamic = elf.get_section_by_name(".dynamic")
    assert isinstance(dynamic, DynamicSection)
    needed = [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]
    wrong = {name for name in needed if name.partition(".so")[0] not in LIBRARIES}
    if wrong:
        fail(f"{wheel.name} needs {sorted(wrong)}")
    symbols = elf.get_section_by_name(".dynsym")
    undefined = {
        symbol.name
        for symbol in symbols.iter_symbols()
        if symbol["st_shndx"] == "SHN_UNDEF"
        and symbol.name
        # A weak symbol may be missing on the platform: before the code calls it, the code tests
        # whether its address is null.
        and symbol["st_info"]["bind"] != "STB_WEAK"
    }
    versions = [version for name, version in versions_of(elf) if name == "GLIBC"]
    if platform.is_musl:
        lacking = {
            name for name in undefined - musl_symbols() if not name.startswith(("Py", "_Py"))
        } | (undefined & YOUNGER)
        if versions or lacking:
            fail(f"{wheel.name}: musl 1.2 lacks {sorted(lacking)} {versions}")
        return "musl 1.2"
    oldest = max(versions)
    if oldest > FLOOR:
        fail(f"{wheel.name} needs glibc {oldest}, above {FLOOR}")
    return f"glibc {'.'.join(map(str, oldest))}"


def versions_of(elf: ELFFile) -> list[tuple[str, tuple[int, ...]]]:
    """Returns the versions of symbols that a library needs, such as `("GLIBC", (2, 17))`."""
    section = elf.get_section_by_name(".gnu.version_r")
    if not isinstance(section, GNUVerNeedSection):
        return []
    names = [entry.name for _, entries in section.iter_versions() for entry in entries]
    matches = [re.fullmatch(r"([A-Z_]+)_(\d+(?:\.\d+)*)", name) for name in names]
    return [(match[1], tuple(map(int, match[2].split(".")))) for match in matches if match]


@functools.cache
def musl_symbols() -> set[str]:
    """Returns the names that musl exports, from the table that zig uses to link."""
    import ziglang

    table = Path(ziglang.__file__).parent / "lib" / "libc" / "musl" / "libc.S"
    return set(re.findall(r"^(?:\.globl|\.weak|WEAK\w*) (\w+)$", table.read_text(), re.MULTILINE))


def check_package(wheel: Path, version: str) -> None:
    """Checks a wheel's bill of materials, its size, and its text on PyPI.

    Raises: SystemExit, if one of the three is wrong.
    """
    with zipfile.ZipFile(wheel) as archive:
        boms = [name for name in archive.namelist() if "/sboms/" in name]
        if len(boms) != 1:
            fail(f"{wheel.name}: expected one bill of materials, got {boms}")
        bom = json.loads(archive.read(boms[0]))
    names = {(part["name"], part["version"]) for part in bom["components"]}
    crates = {name for name, _ in names}
    if bom["bomFormat"] != "CycloneDX" or not {"scylla", "pyo3", "rustls"} <= crates:
        fail(f"{wheel.name}: {boms[0]} does not list the crates")
    if bom["metadata"]["component"]["version"] != version:
        fail(f"{wheel.name}: {boms[0]} is of {bom['metadata']['component']['version']}")
    if wheel.stat().st_size > MAX_BYTES:
        fail(f"{wheel.name} has more than {MAX_BYTES / 1e6} MB")
    run_tool("twine", "check", "--strict", str(wheel))


def audit(wheel: Path, platform: Platform) -> None:
    """Checks that auditwheel determines the platform's tag from the wheel's contents.

    Raises: SystemExit, if auditwheel finds another tag.
    """
    report = json.loads(run_tool("auditwheel", "show", "--json", str(wheel)))
    tag = report["overall_tag"]
    if platform.is_musl and set(report["external_libs"]) == {"libc.so"}:
        # zig names the dependency on musl `libc.so`. auditwheel only knows the name that Alpine
        # uses, so its overall tag is wrong. musl's loader accepts both names for musl itself, so
        # the tag that follows from the symbols is enough.
        tag = report["sym_tag"]
    if tag != platform.tag.replace("manylinux2014", "manylinux_2_17"):
        fail(f"{wheel.name}: auditwheel says {tag}")


def run_tool(name: str, *arguments: str) -> str:
    """Runs a program of this environment. Returns its output. Raises SystemExit if it fails."""
    program = Path(sys.executable).with_name(name)
    ran = subprocess.run([str(program), *arguments], capture_output=True, text=True)
    if ran.returncode:
        fail(f"{name} {' '.join(arguments)} failed:\n{ran.stdout}{ran.stderr}")
    return ran.stdout
