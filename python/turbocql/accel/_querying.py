"""Patches the method of futures that sends a request to a host."""

from __future__ import annotations

import io

from .. import _core
from ._checked import Checked, loaded
from ._frames import expect_fields, has_fields
from ._patch import Driver, Group, Patch
from ._pools import native_pools
from ._sources import Sources
from ._statements import CLUSTER

__all__ = ["Querying"]

_OF_SCYLLA = ("2ba97f85151c",)
_OF_CASSANDRA = ("8ea7561e5d92",)
"""The digests of the known sources of `ResponseFuture._query`."""
_SEND_MSG = ("eaa4c2982116", "5c22825f9d53")
_ATTRIBUTES = (
    *("session", "message", "query", "prepared_statement", "attempted_hosts", "_current_host"),
    *("_req_id", "_connection", "request_encoded_size", "_protocol_handler", "_errors", "_metrics"),
    *("_control_connection_query_attempted", "_routing_token", "_bound_result_metadata"),
)
"""The attributes of futures that native code reads or sets."""


class Querying(Group):
    """Patches `ResponseFuture._query`. Native code also does the work of `Connection.send_msg`."""

    part = "responses"
    needs = CLUSTER
    names = ("cluster.ResponseFuture._query",)

    def patches(self, driver: Driver) -> list[Patch]:
        cluster, connection = loaded("cluster"), loaded("connection")
        sources = Sources()
        checked = Checked(sources)
        owner, name = cluster.ResponseFuture, "ResponseFuture._query"
        is_scylla = "_routing_token" in sources.source(cluster, name)
        original = checked.expect(cluster, name, _OF_SCYLLA if is_scylla else _OF_CASSANDRA)
        checked.expect_none(owner, "__setattr__", "__getattribute__", "__getattr__")
        expect_fields(checked, owner, _ATTRIBUTES)
        send_msg = sources.expect_method(connection, connection.Connection, "send_msg", _SEND_MSG)
        requests = _core.RequestSender(
            native_pools(driver),
            has_fields(
                (
                    *("_requests", "_socket_writable", "protocol_version", "compressor"),
                    *("allow_beta_protocol_version", "features", "_segment_codec"),
                ),
                send_msg=send_msg,
                is_defunct=False,
                is_closed=False,
                _is_checksumming_enabled=False,
            ),
            (vars(cluster), vars(connection)),
            (io, io.BytesIO),
            is_scylla,
        )
        stand_in = _core.QueryStandIn(original, owner, checked.usual(), requests)
        patch = Patch(
            owner,
            "_query",
            self.names[0],
            stand_in.function(),
            stand_in.counts,
            problem=checked.problem,
        )
        return [patch]
