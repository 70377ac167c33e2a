"""Tests the recipe for FastAPI."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import turbocql

from .support import EXAMPLES, Server, answers


def fastapi_module() -> Any:
    spec = importlib.util.spec_from_file_location("app", EXAMPLES / "with_fastapi" / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_fastapi_serves_pages_and_ends_at_sigterm(
    server: Server, session: turbocql.Session, schema: Callable[[str], None], port: int
) -> None:
    schema("with_fastapi")
    key = "0123456789abcdef"
    running = server("with_fastapi", "uvicorn", "app:app", "--port", str(port), PAGING_KEY=key)
    base = f"http://127.0.0.1:{port}"
    running.wait_for(lambda: answers(f"{base}/health/live"))
    with httpx.Client(base_url=base, trust_env=False) as client:
        assert client.get("/health/ready").status_code == 204
        for number in range(7):
            answer = client.post("/authors/ada/notes", json={"note": f"note {number}"})
            assert answer.status_code == 201
        client.post("/authors/bob/notes", json={"note": "of another"})
        assert session.execute("SELECT count(*) FROM notes WHERE author = 'ada'").scalar() == 7

        notes, tokens, page = [], [], None
        while True:
            params = {"size": "3", **({"page": page} if page else {})}
            read = client.get("/authors/ada/notes", params=params).json()
            notes += [note["note"] for note in read["notes"]]
            page = read["next"]
            if page is None:
                break
            tokens.append(page)
        assert notes == [f"note {number}" for number in reversed(range(7))]
        assert len(tokens) == 2

        # If the last row fills a page, an empty page follows.
        page = client.get("/authors/bob/notes", params={"size": "1"}).json()
        assert [note["note"] for note in page["notes"]] == ["of another"]
        after = client.get("/authors/bob/notes", params={"size": "1", "page": page["next"]})
        assert after.json() == {"notes": [], "next": None}
        for url, token in [("ada", tokens[0][:-1]), ("ada", "x"), ("bob", tokens[0])]:
            refused = client.get(f"/authors/{url}/notes", params={"page": token})
            assert refused.status_code == 400, refused.text
    code = running.terminate()
    assert code in (0, -15), running.log()
    assert "Application shutdown complete." in running.log()


def test_fastapi_closes_its_session_and_reports_that_it_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    monkeypatch.setenv("PAGING_KEY", "0123456789abcdef")
    for name in ("TURBOCQL_CONTACT_POINTS", "TURBOCQL_KEYSPACE"):
        monkeypatch.setenv(name, environment[name])
    module = fastapi_module()

    class Failing:
        async def execute(self, *arguments: Any, **options: Any) -> None:
            raise turbocql.errors.NoHostAvailable("no node")

    async def run() -> None:
        async with module.lifespan(module.app) as state:
            response = httpx.Response(204)
            await module.ready(state["session"], response)
            assert response.status_code == 204
            await module.ready(Failing(), response)
            assert response.status_code == 503
            assert not state["session"].closed
        assert state["session"].closed

    asyncio.run(run())
