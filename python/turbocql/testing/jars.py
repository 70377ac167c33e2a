"""The server's jars, fetched once with Maven into the user's cache and then only read.

A fetch holds a lock and fills a temporary folder. A complete folder is renamed to its final name.
So the final folder either holds every jar or does not exist, even if a process is killed during a
fetch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import CassandraError, MissingPrerequisite

try:
    import fcntl
except ImportError:  # Windows, where Cassandra does not run
    fcntl = None  # type: ignore[assignment]

__all__ = ["VERSION", "cache_dir", "ensure_jars"]

VERSION = "5.0.5"

_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>turbocql</groupId>
  <artifactId>testing</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.cassandra</groupId>
      <artifactId>cassandra-all</artifactId>
      <version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


def cache_dir() -> Path:
    """Returns the folder that the variable TURBOCQL_CACHE_DIR names. If the variable is not set,
    returns the folder `turbocql` in the user's XDG cache folder.
    """
    configured_dir = os.environ.get("TURBOCQL_CACHE_DIR")
    if configured_dir:
        return Path(configured_dir).absolute()
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache"
    return base / "turbocql"


def ensure_jars() -> Path:
    """Returns the folder with the server's jars, and fetches them if it does not exist.

    Blocks: about 40 s for a fetch, or while another process fetches.
    Raises: `MissingPrerequisite` on Windows, or if Maven is missing; `CassandraError` with
        Maven's output if the fetch fails.
    """
    if fcntl is None:
        raise MissingPrerequisite("Cassandra needs Linux or macOS: it does not run on Windows.")
    lib = cache_dir() / f"cassandra-{VERSION}"
    if lib.is_dir():
        return lib
    try:
        lib.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CassandraError(
            f"cannot create the cache folder {lib.parent} ({error.strerror}): "
            "set TURBOCQL_CACHE_DIR to a writable folder"
        ) from error
    with _lock(lib.with_name(lib.name + ".lock")):
        if not lib.is_dir():  # another process may have fetched the jars during the wait
            _fetch(lib)
    return lib


def _fetch(lib: Path) -> None:
    mvn = shutil.which("mvn")
    if not mvn:
        raise MissingPrerequisite(
            f"Maven fetches the jars of Cassandra {VERSION} and was not found: "
            "install it (Debian and Ubuntu: apt-get install maven) and put mvn on PATH."
        )
    prefix = lib.name + ".partial-"
    for abandoned in lib.parent.glob(prefix + "*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=prefix, dir=lib.parent))
    try:
        (partial / "pom.xml").write_text(_POM)
        maven_run = subprocess.run(
            [mvn, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"],
            cwd=partial,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        if maven_run.returncode or not (partial / "lib" / f"cassandra-all-{VERSION}.jar").is_file():
            tail = "\n".join(maven_run.stdout.splitlines()[-20:])
            raise CassandraError(
                f"Maven could not fetch Cassandra {VERSION} (exit status {maven_run.returncode}):\n"
                f"{tail}"
            )
        os.chmod(partial / "lib", 0o755)
        os.rename(partial / "lib", lib)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on the file.

    The kernel releases the lock when the process ends. The file is never removed. If it were, two
    processes could each lock a different file of the same name.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    print(ensure_jars())
