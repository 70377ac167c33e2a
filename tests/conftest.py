"""Makes `tests.support` importable, however pytest was started, and Ctrl-C a signal again."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[1])
if _ROOT not in sys.path:
    sys.path.insert(0, _ROOT)

# Shells start what runs in the background with SIGINT ignored, and children inherit that: the
# programs that tests interrupt would not notice.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
