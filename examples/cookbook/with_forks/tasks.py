"""Celery: each process of the prefork pool opens its own session."""

import json
import os
from typing import Any

import shop
from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown

app = Celery("tasks", broker=os.environ["BROKER_URL"])
app.conf.broker_transport_options = json.loads(os.environ.get("BROKER_OPTIONS", "{}"))
app.conf.task_ignore_result = True
# The pool kills a process that takes longer than this to start. The default is 4 seconds.
app.conf.worker_proc_alive_timeout = 30


@worker_process_init.connect
def open_session(**signal: Any) -> None:
    shop.open_session()


@worker_process_shutdown.connect
def close_session(**signal: Any) -> None:
    shop.close_session()


# A task is acknowledged when it is done. So the task of a lost worker runs again, maybe twice.
@app.task(acks_late=True, reject_on_worker_lost=True)
def book(order_id: str) -> None:
    shop.session().execute(
        "UPDATE orders SET booked_by = ? WHERE id = ?", (os.getpid(), order_id), idempotent=True
    )
