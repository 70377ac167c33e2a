"""Runs the command line: `python -m turbocql.cli`."""

import sys

from . import main

sys.exit(main())
