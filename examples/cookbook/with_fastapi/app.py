"""A FastAPI service with one session: it writes notes, and reads them page by page."""

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from pydantic import BaseModel

import turbocql
import turbocql.aio
from turbocql import errors

INSERT = "INSERT INTO notes (author, id, note) VALUES (?, ?, ?)"
SELECT = "SELECT id, note FROM notes WHERE author = ?"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """Opens the session before the first request, and closes it after the last one."""
    tokens = turbocql.PagingTokens(os.environ["PAGING_KEY"].encode())
    config = turbocql.Config.from_env(wait_s=60)
    async with turbocql.aio.connect(config=config) as session:
        yield {"session": session, "tokens": tokens}


app = FastAPI(lifespan=lifespan)


def session_of(request: Request) -> turbocql.aio.AsyncSession:
    session: turbocql.aio.AsyncSession = request.state.session
    return session


Session = Annotated[turbocql.aio.AsyncSession, Depends(session_of)]


class Note(BaseModel):
    note: str


@app.post("/authors/{author}/notes", status_code=201)
async def write_note(author: str, note: Note, session: Session) -> dict[str, Any]:
    note_id = uuid.uuid1()
    # The id is chosen here, so even if the statement is sent twice, it writes one row.
    await session.execute(INSERT, (author, note_id, note.note), idempotent=True)
    return {"id": note_id}


@app.get("/authors/{author}/notes")
async def read_notes(
    author: str,
    request: Request,
    session: Session,
    page: str | None = None,
    size: Annotated[int, Query(ge=1, le=100)] = 20,
) -> dict[str, Any]:
    tokens = request.state.tokens
    try:
        state = tokens.verify(page, SELECT, (author,))
    except errors.PagingTokenError as error:
        raise HTTPException(400, "page is not a token of this list") from error
    rows = await session.execute(SELECT, (author,), page_size=size, paging_state=state)
    return {
        "notes": [row._asdict() for row in rows.page()],
        "next": tokens.sign(rows.paging_state, SELECT, (author,)),
    }


@app.get("/health/live", status_code=204)
async def live() -> None:
    """Answers as long as the process runs, whether or not the database answers."""


@app.get("/health/ready", status_code=204)
async def ready(session: Session, response: Response) -> None:
    try:
        select = "SELECT key FROM system.local"
        await session.execute(select, consistency="LOCAL_ONE", timeout_s=2)
    except errors.RequestError:
        response.status_code = 503
