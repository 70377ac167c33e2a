"""Gunicorn imports the application once and forks the workers. Each worker opens a session."""

from typing import Any

import shop

wsgi_app = "shop:application"
workers = 2
preload_app = True


def post_fork(server: Any, worker: Any) -> None:
    shop.open_session()


def worker_exit(server: Any, worker: Any) -> None:
    shop.close_session()
