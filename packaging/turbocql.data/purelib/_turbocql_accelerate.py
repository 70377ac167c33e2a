"""Waits for the import of the package `cassandra`, and then accelerates it.

Python imports this module at its start if the environment has a `TURBOCQL_ACCELERATE` that is not
empty: see `turbocql_accelerate.pth`. turbocql itself is imported only together with the driver.
"""

import os
import sys


class _Finder:
    """A finder that watches the imports of the process until `cassandra` is imported."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        """Starts the accelerator for `cassandra`. Returns None, so other finders find it."""
        if fullname == "cassandra":
            sys.meta_path.remove(_Finder)
            try:
                from turbocql.accel._start import start
            except ImportError as error:
                # The program works without the accelerator, so this error must not stop the
                # program.
                print(f"turbocql: {error}; the driver is not accelerated", file=sys.stderr)
            else:
                start()


def watch():
    """Begins to watch imports, unless `TURBOCQL_ACCELERATE` turns the accelerator off."""
    off = os.environ["TURBOCQL_ACCELERATE"].lower() in ("0", "off", "false", "no")
    if not off and _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
