"""Tests the recipe for Django."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import turbocql

from .support import EXAMPLES

DJANGO = """
import json
from concurrent.futures import ThreadPoolExecutor

import django

django.setup()

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

settings.ALLOWED_HOSTS = ["testserver"]
call_command("migrate", verbosity=0)
user = User.objects.create_user("ada")


def visit(page):
    return Client().post("/users/ada/visits", {"page": page}).status_code


with ThreadPoolExecutor(4) as threads:
    statuses = list(threads.map(visit, [f"/page/{number}" for number in range(8)]))
read = Client().get("/users/ada/visits")
print(json.dumps({
    "id": user.id,
    "statuses": statuses,
    "read": read.json(),
    "unknown": Client().post("/users/eve/visits", {"page": "/"}).status_code,
}))
"""


def test_django_writes_to_cassandra_besides_the_orm(
    environment: dict[str, str],
    session: turbocql.Session,
    schema: Callable[[str], None],
    tmp_path: Path,
) -> None:
    schema("with_django")
    ran = subprocess.run(
        [sys.executable, "-c", DJANGO],
        cwd=EXAMPLES / "with_django",
        env={
            **environment,
            "DJANGO_SETTINGS_MODULE": "settings",
            "DJANGO_SECRET_KEY": "of the test",
            "ORM_FILE": str(tmp_path / "orm.sqlite3"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert answer["statuses"] == [201] * 8
    assert answer["unknown"] == 404
    assert answer["read"]["user"] == "ada"
    rows = session.execute("SELECT at, page FROM visits WHERE user_id = ?", (answer["id"],)).all()
    # Visits within the same millisecond have the same key, so they are one row. So there may be
    # fewer rows than visits.
    assert 1 < len(rows) <= 8
    assert [visit["page"] for visit in answer["read"]["visits"]] == [row.page for row in rows]
    times = [visit["at"] for visit in answer["read"]["visits"]]
    assert times == sorted(times, reverse=True)
    assert all(text.endswith("Z") for text in times)
