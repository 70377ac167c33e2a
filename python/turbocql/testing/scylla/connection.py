"""Handles each kind of request of a client."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace

from .. import frames
from ..frames import Frame, FrameError, Reader, long_string
from .link import Link
from .messages import (
    SKIP_METADATA,
    Execute,
    batch_parts,
    batch_with_texts,
    paging_of,
    read_values,
    unwrap,
    wrap,
)
from .murmur3 import routing_key, token_of
from .results import (
    NO_METADATA,
    PREPARED,
    SCHEMA_CHANGE,
    SET_KEYSPACE,
    Prepared,
    Rows,
    is_rows,
    metadata_id,
)
from .settings import (
    LWT,
    LWT_MARK,
    METADATA_ID,
    RATE_LIMIT,
    RATE_LIMIT_CODE,
    TABLETS_V1,
    TABLETS_V2,
)
from .state import Statement
from .statements import Analysis, analyse
from .system_tables import CQL_VERSION, Refusal, Rewrite, Virtual, plan
from .tablets import V1_KEY, V2_KEY, Tablet

__all__ = ["Connection"]

CONFIG_ERROR = 0x2300
_ON_TABLES = ("select", "insert", "update", "delete", "begin")


class Connection(Link):
    """Rewrites messages, so that the client sees a ScyllaDB with the extensions that it asked for.

    A method that passes a request on may give `_send` a handler, which rewrites the response.
    Requests that the simulator answers itself never reach the node.
    """

    def _request(self, frame: Frame) -> None:
        if frame.flags & frames.PAYLOAD or frame.flags & frames.COMPRESSED:
            # The tests' clients send no custom payload, and SUPPORTED offers no compression. So the
            # simulator does not implement either.
            raise FrameError("a request with a custom payload or compression is not understood")
        handle = {
            frames.OPTIONS: self._options,
            frames.STARTUP: self._startup,
            frames.QUERY: self._query,
            frames.PREPARE: self._prepare,
            frames.EXECUTE: self._execute,
            frames.BATCH: self._batch,
        }.get(frame.opcode)
        if handle is None:
            self._log(frame, None)
            self._send(frame)
        else:
            handle(frame)

    def _options(self, frame: Frame) -> None:
        def supported(answer: Frame) -> Frame:
            options = Reader(answer.body).string_multimap()
            options["COMPRESSION"] = []
            options["CQL_VERSION"] = [CQL_VERSION]
            options.pop("PROTOCOL_VERSIONS", None)
            if self.node.shards is not None:
                options.update(self.node.shards.supported(self.shard))
            return answer._replace(body=frames.string_multimap(options))

        self._log(frame, None)
        self._send(frame, supported)

    def _startup(self, frame: Frame) -> None:
        options = Reader(frame.body).string_map()
        offered = self.node.shards.extensions if self.node.shards else frozenset()
        self.extensions = offered.intersection(options)
        self.driver = options.get("DRIVER_NAME")
        passed = {
            name: text
            for name, text in options.items()
            if not name.startswith(("SCYLLA_", "TABLETS_"))
        }
        passed["CQL_VERSION"] = "3.0.0"
        self._log(frame, None)
        self._send(frame._replace(body=frames.string_map(passed)))

    def _planned(self, analysis: Analysis) -> Refusal | Virtual | Rewrite | None:
        if analysis.select is None:
            return None
        return plan(analysis.select, analysis.text, self._keyspace, self.state.upstream_addresses)

    def _is_not_on_user_table(self, analysis: Analysis) -> bool:
        select = analysis.select
        keyspace = (select.keyspace if select else None) or self._keyspace or ""
        return _is_system(keyspace) or analysis.verb not in _ON_TABLES

    def _is_limited(self, frame: Frame, text: str | None, is_write: bool) -> int | None:
        """If the rate limit refuses a request, answers it with an error, and returns the error's
        code. Otherwise returns `None`.
        """
        if not self.state.is_limited(self.node, text):
            return None
        message = f"Per-partition rate limit reached for {'writes' if is_write else 'reads'}"
        if RATE_LIMIT in self.extensions:
            self._answer_error(frame, RATE_LIMIT_CODE, message, struct.pack(">BB", is_write, 1))
            return RATE_LIMIT_CODE
        self._answer_error(frame, CONFIG_ERROR, message)
        return CONFIG_ERROR

    def _query(self, frame: Frame) -> None:
        reader = Reader(frame.body)
        text, parameters = reader.long_string(), reader.remaining()
        analysis = analyse(text)
        planned = self._planned(analysis)
        if isinstance(planned, Refusal):
            self._log(frame, text, error=planned.code)
            self._answer_error(frame, planned.code, planned.message)
            return
        if isinstance(planned, Virtual):
            self._log(frame, text)
            values, _ = read_values(parameters, 1)
            rows = planned.rows(
                self.state.stored_rows(self.node, planned.table), values[0] if values else None
            )
            self._answer(frame, frames.RESULT, rows.encoded())
            return
        is_system = self._is_not_on_user_table(analysis)
        error = None if is_system else self._is_limited(frame, text, analysis.is_write)
        self._log(frame, text, error=error)
        if error is not None:
            return
        sent_text = planned.text if isinstance(planned, Rewrite) else analysis.text
        empty = None
        if analysis.verb == "select" and not is_system:
            parameters, empty = self._paged(parameters)
        body = long_string(sent_text) + parameters

        def result(answer: Frame) -> Frame:
            prefix, message = frames.split_response(answer.flags, answer.body)
            self._follow(analysis, message)
            if not is_rows(message) or (empty is None and not isinstance(planned, Rewrite)):
                return answer
            rows = Rows.parse(message)
            if isinstance(planned, Rewrite):
                rows = planned.rows(rows, self.state.client_addresses)
            if empty is not None:
                rows = rows.without_rows(empty)
            return answer._replace(body=prefix + rows.encoded())

        self._send(frame._replace(body=body), result)

    def _follow(self, analysis: Analysis, message: bytes) -> None:
        """Updates the keyspace in use and the state from the result of a statement."""
        if message.startswith(frames.int32(SET_KEYSPACE)):
            self._keyspace = Reader(message, 4).string()
        if not message.startswith(frames.int32(SCHEMA_CHANGE)):
            return
        if analysis.change is not None:
            self.state.apply_keyspace_ddl(analysis.change)
        if analysis.dropped_table is not None:
            keyspace, table = analysis.dropped_table
            self.state.maps.pop((keyspace or self._keyspace or "", table), None)

    def _paged(self, parameters: bytes) -> tuple[bytes, bytes | None]:
        """Returns the parameters to send to the node, and the paging state of an empty page.

        Unless this paging state is `None`, the client gets an empty page: the node's result without
        its rows, and with this paging state.
        """
        if not self.state.faults.empty_pages:
            return parameters, None
        paging = paging_of(parameters)
        if paging.size is None:
            return parameters, None
        wrapped = unwrap(paging.state)
        pages_left, inner = (
            (self.state.faults.empty_pages, paging.state) if wrapped is None else wrapped
        )
        if wrapped is None and paging.state is not None:
            return parameters, None
        if wrapped is not None:
            parameters = paging.with_state(parameters, inner)
        return parameters, wrap(pages_left - 1, inner) if pages_left > 0 else None

    def _prepare(self, frame: Frame) -> None:
        reader = Reader(frame.body)
        text, suffix = reader.long_string(), reader.remaining()
        analysis = analyse(text)
        planned = self._planned(analysis)
        has_id = METADATA_ID in self.extensions
        self._log(frame, text, error=planned.code if isinstance(planned, Refusal) else None)
        if isinstance(planned, Refusal):
            self._answer_error(frame, planned.code, planned.message)
            return
        version = frame.version & 0x7F
        if isinstance(planned, Virtual):
            name = hashlib.sha256(b"virtual" + text.encode()).digest()[:16]
            bound = planned.bound
            prepared = Prepared(name, 0, 0, tuple(range(len(bound))), b"", 0, 0, b"")
            described = prepared.with_columns(bound) if bound else prepared
            prepared = replace(
                prepared,
                bind_flags=described.flags,
                bind_count=len(bound),
                bind_columns=described.columns,
            ).with_columns(planned.columns)
            body = self._store_prepared(
                prepared, Statement(text, analysis, planned), version, has_id
            )
            self._answer(frame, frames.RESULT, body)
            return
        sent_text = planned.text if isinstance(planned, Rewrite) else analysis.text

        def result(answer: Frame) -> Frame:
            prefix, message = frames.split_response(answer.flags, answer.body)
            if not message.startswith(frames.int32(PREPARED)):
                return answer
            prepared = Prepared.parse(message, version)
            if isinstance(planned, Rewrite):
                prepared = prepared.with_columns(planned.columns(prepared.column_specs()))
            if LWT in self.extensions and analysis.is_conditional:
                prepared = replace(prepared, bind_flags=prepared.bind_flags | LWT_MARK)
            body = self._store_prepared(
                prepared, Statement(text, analysis, planned), version, has_id
            )
            return answer._replace(body=prefix + body)

        body = frame.body if sent_text == text else long_string(sent_text) + suffix
        self._send(frame._replace(body=body), result)

    def _store_prepared(
        self, prepared: Prepared, statement: Statement, version: int, has_id: bool
    ) -> bytes:
        """Stores a prepared statement, and returns the body of the response to the client."""
        columns = [*prepared.bound(), *prepared.column_specs()]
        if columns:
            statement.table = (columns[0].keyspace, columns[0].table)
            statement.is_system = _is_system(columns[0].keyspace)
        statement.key_indexes = prepared.key_indexes
        statement.bind_names = [column.name for column in prepared.bound()]
        earlier = self.state.statements.get(prepared.id)
        if earlier is not None and not statement.key_indexes:
            statement.key_indexes = earlier.key_indexes  # protocol version 3 has no key indexes
        self.state.remember(prepared.id, statement)
        new_id = None
        if has_id:
            columns_bytes = b"" if prepared.flags & NO_METADATA else prepared.columns
            new_id = metadata_id(prepared.count, columns_bytes, self.state.salt)
        return prepared.encoded(version, new_id)

    def _execute(self, frame: Frame) -> None:
        execute = Execute.parse(
            frame.body,
            has_metadata_id=METADATA_ID in self.extensions,
            has_block=TABLETS_V2 in self.extensions,
        )
        statement = self.state.statements.get(execute.id)
        if statement is None:
            self._log(frame, None, execute=execute)
            skips = bool(execute.flags & SKIP_METADATA) and METADATA_ID not in self.extensions
            body = execute.body(execute.parameters, skips_metadata=skips)
            self._send(frame._replace(body=body))
            return
        if isinstance(statement.plan, Virtual):
            self._log(frame, statement.text, execute=execute)
            values, _ = read_values(execute.parameters, 1)
            stored = self.state.stored_rows(self.node, statement.plan.table)
            rows = statement.plan.rows(stored, values[0] if values else None)
            self._answer(frame, frames.RESULT, self._described(rows, execute))
            return
        key = self._routing_key(statement, execute)
        tablet = self._tablet(statement, key)
        misrouted = None
        if tablet is not None:
            misrouted = not any(
                replica.node == self.node.index and replica.shard == self.shard
                for replica in tablet.replicas
            )
        error = None
        if not statement.is_system:
            error = self._is_limited(frame, statement.text, statement.analysis.is_write)
        self._log(frame, statement.text, key=key, misrouted=misrouted, execute=execute, error=error)
        if error is not None:
            return
        payload = self._payload(tablet, bool(misrouted), execute)
        parameters, empty = execute.parameters, None
        if statement.analysis.verb == "select" and not statement.is_system:
            parameters, empty = self._paged(parameters)
        rewrites = isinstance(statement.plan, Rewrite)
        skips = bool(execute.flags & SKIP_METADATA)
        if METADATA_ID in self.extensions or rewrites:
            skips = False

        def result(answer: Frame) -> Frame:
            prefix, message = frames.split_response(answer.flags, answer.body)
            self._follow(statement.analysis, message)
            if is_rows(message):
                rows = Rows.parse(message, statement.latest)
                statement.latest = replace(rows, paging_state=None, rows=b"")
                if isinstance(statement.plan, Rewrite):
                    rows = statement.plan.rows(rows, self.state.client_addresses)
                if empty is not None:
                    rows = rows.without_rows(empty)
                answer = answer._replace(body=prefix + self._described(rows, execute))
            if payload is not None:
                flags, body = frames.with_payload(answer.flags, answer.body, *payload)
                answer = answer._replace(flags=flags, body=body)
            return answer

        body = execute.body(parameters, skips_metadata=skips)
        self._send(frame._replace(body=body), result)

    def _described(self, rows: Rows, execute: Execute) -> bytes:
        """Returns the body of a result. The body has no metadata if three conditions are met: the
        client has enabled metadata ids, it has the current metadata, and it asks to skip it.
        """
        if METADATA_ID not in self.extensions:
            return rows.encoded()
        current = metadata_id(rows.count, rows.columns, self.state.salt)
        if execute.metadata_id != current:
            return rows.encoded(new_id=current)
        return rows.encoded(is_bare=bool(execute.flags & SKIP_METADATA))

    def _routing_key(self, statement: Statement, execute: Execute) -> bytes | None:
        indexes = statement.key_indexes
        if not indexes:
            return None
        values, names = read_values(execute.parameters, 1 << 16)
        if names:
            by_name = dict(zip(names, values, strict=True))
            values = [by_name.get(name) for name in statement.bind_names]
        parts = [values[index] if index < len(values) else None for index in indexes]
        components = [part for part in parts if part is not None]
        return routing_key(components) if len(components) == len(parts) else None

    def _tablet(self, statement: Statement, key: bytes | None) -> Tablet | None:
        if key is None or statement.table is None or self.node.shards is None:
            return None
        tablets = self.state.tablets_of(statement.table)
        return None if tablets is None else tablets.of(token_of(key))

    def _payload(
        self, tablet: Tablet | None, misrouted: bool, execute: Execute
    ) -> tuple[str, bytes] | None:
        if tablet is None:
            return None
        if TABLETS_V2 in self.extensions:
            block = execute.block or 0
            return None if tablet.matches(block) else (V2_KEY, tablet.routing(has_version=True))
        if TABLETS_V1 in self.extensions and misrouted:
            return V1_KEY, tablet.routing(has_version=False)
        return None

    def _batch(self, frame: Frame) -> None:
        parts = batch_parts(frame.body)
        changed: dict[str, str] = {}
        texts = []
        for part in parts:
            if isinstance(part, str):
                analysis = analyse(part)
                if analysis.text != part:
                    changed[part] = analysis.text
                texts.append(part)
            else:
                statement = self.state.statements.get(part)
                texts.append(statement.text if statement else "?")
        text = "; ".join(texts)
        error = self._is_limited(frame, text, True)
        self._log(frame, text, error=error)
        if error is None:
            body = batch_with_texts(frame.body, changed) if changed else frame.body
            self._send(frame._replace(body=body))


def _is_system(keyspace: str) -> bool:
    return keyspace == "system" or keyspace.startswith("system_")
