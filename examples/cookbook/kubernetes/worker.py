"""A worker without a web server. SIGTERM ends its loop after the current step."""

import os
import signal
import threading
from datetime import datetime, timezone

import turbocql

stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())

with turbocql.connect(config=turbocql.Config.from_env(wait_s=60)) as session:
    pod = os.environ.get("HOSTNAME", "worker")
    while not stopping.is_set():
        now = datetime.now(timezone.utc)
        session.execute("INSERT INTO heartbeats (pod, at) VALUES (?, ?)", (pod, now))
        stopping.wait(1)
print("closed:", session.closed)
