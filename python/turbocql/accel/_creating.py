"""Patches the method of sessions that makes the message and the future of a request."""

from __future__ import annotations

from typing import Any

from .. import _core
from ._checked import Checked, loaded
from ._frames import expect_fields
from ._origin import NotReplaced
from ._patch import Driver, Group, Patch
from ._pools import Borrowing, Returning
from ._querying import Querying
from ._responses import Responses, native_responses
from ._sources import Sources
from ._statements import CLUSTER

__all__ = ["response_groups"]

_CREATE = "Session._create_response_future"
_OF_SCYLLA: dict[str, tuple[str, ...]] = {
    "cluster.Session._create_response_future": ("c35977e0e5db",),
    "cluster.Session._compute_tablet_version_block": ("9f15e590dbfc",),
    "protocol.ExecuteMessage.__init__": ("978368afc339",),
    "protocol.QueryMessage.__init__": ("2512dd3631e4",),
    "protocol._QueryMessage.__init__": ("1422790fe0f4",),
    "query.PreparedStatement.result_metadata_and_id": ("a50af11fc652",),
    "metadata.Metadata.can_support_partitioner": ("9df5fbf01223",),
    "metadata.Token.from_key": ("1a698bd39045",),
    "metadata.Token.__init__": ("c232cdbe0e69",),
    "metadata.Murmur3Token.hash_fn": ("f30b0aadb16f",),
    "metadata.Murmur3Token.__init__": ("ec883b7d3041",),
    "tablets.Tablets.get_tablet_for_key": ("c1ed1a8085eb", "602ba21657ca"),
}
_OF_CASSANDRA: dict[str, tuple[str, ...]] = {
    "cluster.Session._create_response_future": ("f012f225fc24",),
    "protocol.ExecuteMessage.__init__": ("f6721fb98e42",),
    "protocol.QueryMessage.__init__": ("b0ee0136527a",),
    "protocol._QueryMessage.__init__": ("229f061fd30a",),
}
_IMITATED: dict[str, tuple[str, ...]] = {
    "cluster.Session._maybe_get_execution_profile": ("05e478c96855",),
    "cluster.Session.get_execution_profile": ("f5ac0b30c68d",),
    "protocol.BatchMessage.__init__": ("6c6c654862fd",),
    "protocol._MessageType.update_custom_payload": ("4147351993b6",),
}
"""The functions whose work is done natively, and the digests of their known sources."""
_SESSION = (
    *("cluster", "keyspace", "_metrics", "_protocol_version"),
    *("use_client_timestamp", "default_fetch_size"),
)
"""The attributes of sessions that native code reads in the dict of a session."""
_STATEMENTS = ("PreparedStatement", "BoundStatement", "SimpleStatement", "BatchStatement")
_MESSAGES = ("ExecuteMessage", "QueryMessage", "BatchMessage")
_KEYS = (b"", b"a", b"\0\0\0\x05", bytes(range(40)), b"\xff" * 17)
"""Sample routing keys, whose tokens must be equal to those of the driver."""
_VALUES = ("EXEC_PROFILE_DEFAULT", "_NOT_SET", "FETCH_SIZE_UNSET")
"""Names of `cassandra.cluster` that the driver's method uses."""


class Creating(Group):
    """Patches `Session._create_response_future`.

    For bound and simple statements and batches, native code also makes the message, and does the
    work of `ResponseFuture.__init__`.
    """

    part = "responses"
    needs = CLUSTER
    names = (f"cluster.{_CREATE}",)

    def patches(self, driver: Driver) -> list[Patch]:
        cluster, protocol = loaded("cluster"), driver.protocol
        native = native_responses(driver)
        sources = Sources()
        checked = Checked(sources)
        owner, future = cluster.Session, cluster.ResponseFuture
        has_tokens = "routing_token" in sources.source(cluster, _CREATE)
        imitated = _IMITATED | (_OF_SCYLLA if has_tokens else _OF_CASSANDRA)
        for name, digests in imitated.items():
            module, _, function = name.partition(".")
            checked.expect(loaded(module), function, digests)
        checked.include(native.checked)
        messages = [getattr(protocol, name) for name in _MESSAGES]
        for message in messages:
            for cls in message.__mro__[:-2]:
                checked.expect_none(cls, "update_custom_payload")
            checked.expect_none(type(message), "__call__")
        for cls in (owner, *messages, *messages[0].__mro__[1:-1], future):
            checked.expect_none(cls, "__new__", "__setattr__", "__getattribute__", "__getattr__")
        expect_fields(checked, owner, _SESSION)
        for name in _STATEMENTS:
            checked.add_entry(cluster, name, getattr(driver.query, name))
        for name in _MESSAGES:
            checked.add_entry(cluster, name, getattr(protocol, name))
        for name in ("ExecutionProfile", *_VALUES):
            checked.add_entry(cluster, name, getattr(cluster, name))
        checked.add_entry(cluster, "ResponseFuture", future)
        checked.add_entry(cluster, "ProtocolVersion", protocol.ProtocolVersion)
        checked.add_entry(cluster, "_ConfigMode", cluster._ConfigMode)
        for name, number in (("LEGACY", 1), ("PROFILES", 2)):
            if vars(cluster._ConfigMode).get(name) != number:
                raise NotReplaced(f"cassandra.cluster._ConfigMode.{name} has been replaced")
            checked.add_attribute(cluster._ConfigMode, name)
        maker = _core.FutureMaker(
            native.responses,
            {
                "session": owner,
                "prepared_statement": cluster.PreparedStatement,
                "bound_statement": cluster.BoundStatement,
                "simple_statement": cluster.SimpleStatement,
                "batch_statement": cluster.BatchStatement,
                "profile": cluster.ExecutionProfile,
                "execute_message": protocol.ExecuteMessage,
                "query_message": protocol.QueryMessage,
                "batch_message": protocol.BatchMessage,
                "future": future,
            },
            {
                "default_profile": cluster.EXEC_PROFILE_DEFAULT,
                "not_set": cluster._NOT_SET,
                "no_fetch_size": cluster.FETCH_SIZE_UNSET,
            },
            object.__new__,
            self._token_classes(checked) if has_tokens else None,
            vars(cluster),
        )
        original = vars(owner)["_create_response_future"]
        stand_in = _core.CreateStandIn(original, checked.usual(), maker)
        patch = Patch(
            owner,
            "_create_response_future",
            self.names[0],
            stand_in.function(),
            stand_in.counts,
            problem=checked.problem,
        )
        return [patch]

    def _token_classes(self, checked: Checked) -> tuple[type[Any], type[Any], type[Any]]:
        """Returns the driver's classes of metadata, tokens and tablets.

        Raises: NotReplaced, if turbocql does not know how this driver computes tokens.
        """
        metadata = loaded("metadata")
        murmur3 = vars(metadata).get("murmur3")
        if murmur3 is None:
            raise NotReplaced("the driver cannot compute tokens")
        checked.add_entry(metadata, "murmur3", murmur3)
        token = metadata.Murmur3Token
        if any(token.from_key(key).value != _core.token(key) for key in _KEYS):
            raise NotReplaced("its tokens differ from those that turbocql computes")
        for cls in (token, metadata.HashToken):
            checked.expect_none(cls, "from_key")
        for cls in token.__mro__[:-1]:
            checked.expect_none(cls, "__new__", "__setattr__", "value")
        expect_fields(checked, metadata.Metadata, ("partitioner",))
        return metadata.Metadata, token, loaded("tablets").Tablets


def response_groups() -> list[Group]:
    """All groups that patch futures and pools."""
    return [Responses(), Returning(), Borrowing(), Querying(), Creating()]
