"""Changes the driver while the accelerator is on. Checks what the accelerator does and reports."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import cassandra
import pytest
from cassandra import cqltypes, encoder, protocol, query, util
from cassandra.cqlengine import columns, models, statements
from tests.accel.environments import SAFE, run
from tests.accel.mapper import both
from tests.accel.statements import seams

from turbocql import accel
from turbocql.accel import _arrays

pytestmark = pytest.mark.usefixtures("mapper_session")
NATIVE = pytest.mark.needs(not SAFE, "native calls")


def model() -> Any:
    """Returns a new model class. The accelerator has stored nothing about its columns yet."""

    class Changing(models.Model):  # type: ignore[misc]
        key = columns.Integer(primary_key=True, default=lambda: 7)
        name = columns.Text(default="n")
        price = columns.Double()
        tags = columns.List(columns.Integer, default=[1])

    return Changing


def mapper_calls() -> tuple[int, int]:
    """Returns how many calls of the object mapper were native, and how many fell back to the
    driver.
    """
    own = [seam for seam in accel.status().seams if seam.part == "cqlengine"]
    return sum(seam.native for seam in own), sum(seam.fallback for seam in own)


def used(cls: Any, times: int = 6) -> tuple[int, int]:
    """Saves instances of a model. Returns how much larger the two counts of `mapper_calls` are
    afterwards.
    """
    native, fallback = mapper_calls()
    for _ in range(times):
        cls.create(key=1)
        cls(key=2, name="a", tags=[2]).save()
    after = mapper_calls()
    return after[0] - native, after[1] - fallback


def reasons(part: str) -> set[str]:
    """Returns the reasons why functions of a part are not patched. For a patched function, the
    reason is "".
    """
    own = [seam for seam in accel.status().seams if seam.part == part]
    assert all(seam.patched == (not seam.why) for seam in own)
    return {seam.why for seam in own}


@NATIVE
@pytest.mark.parametrize(
    "owner",
    [
        *(columns.Column, columns.Text, columns.BaseValueManager, models.BaseModel),
        *(models.ColumnDescriptor, statements.InsertStatement, statements.BaseClause),
    ],
    ids=lambda owner: owner.__name__,
)
def test_new_attributes_leave_the_mapper_native(
    owner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    accel.accelerate()
    before, seen_before = model(), model()
    used(seen_before)
    monkeypatch.setattr(owner, "attname", property(lambda self: self.column_name), raising=False)
    monkeypatch.setattr(owner, "verbose_name", "text", raising=False)
    for cls in (before, seen_before, model()):
        used(cls, 2)
        native, fallback = used(cls)
        assert native > 60, cls
        assert fallback == 0, cls
    assert reasons("cqlengine") == {""}


class CallableBool:
    """Stands for the objects that `has_default` of django-cassandra-engine returns."""

    def __init__(self, value: bool) -> None:
        self._value = value

    def __bool__(self) -> bool:
        return self._value

    def __call__(self) -> bool:
        return self._value


@NATIVE
@pytest.mark.parametrize("early", [False, True], ids=["later", "before"])
@pytest.mark.parametrize("default", ["a property", "a method", "of one class"])
def test_defaults_of_the_program_are_called(
    early: bool, default: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """django-cassandra-engine replaces `Column.has_default` when it is set up."""
    asked: list[str] = []

    def has_default(self: Any) -> Any:
        asked.append(self.column_name)
        return CallableBool(self.default is not None and self.column_name != "name")

    def get_default(self: Any) -> Any:
        asked.append(f"{self.column_name}!")
        return 5 if self.column_name == "key" else [3] if self.column_name == "tags" else "own"

    def change() -> None:
        owner = columns.Text if default == "of one class" else columns.Column
        if default == "a method":
            monkeypatch.setattr(owner, "get_default", get_default)
        else:
            monkeypatch.setattr(owner, "has_default", property(has_default), raising=False)

    if early:
        change()
    accel.accelerate()
    cls = model()
    used(cls)
    if not early:
        change()
    used(cls, 2)
    native, fallback = used(cls)
    assert native > 60
    assert fallback == 0
    assert reasons("cqlengine") == {""}

    def work() -> Any:
        asked.clear()
        made = cls(price=1.5)
        made.save()
        again = cls.create(tags=[9])
        made.name = "changed"
        made.save()
        return dict(made), dict(again), list(asked), made._values["tags"].changed

    both(work)


def replaced_getter(self: Any) -> Any:
    """Returns the same as `BaseValueManager.getval`."""
    return self.value


def named(self: Any) -> Any:
    """Returns the same as `Column.db_field_name`."""
    return self.db_field or self.column_name


@NATIVE
@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (columns.BaseValueManager, "getval", replaced_getter),
        (columns.Column, "db_field_name", property(named)),
        (columns.Column, "_val_is_null", lambda self, value: value is None),
        (columns.Column, "value_manager", type("Own", (columns.BaseValueManager,), {})),
        (models.BaseModel, "_can_update", lambda self: True),
        (models.BaseModel, "__bool__", lambda self: True),
        (statements.BaseCQLStatement, "get_context", lambda self: {}),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)
def test_what_is_left_to_the_driver_is_reported(
    owner: Any, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    accel.accelerate()
    cls = model()
    used(cls)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, value, raising=False)
        native, fallback = used(cls)
        assert fallback > native
        (why,) = reasons("cqlengine")
        assert f"{owner.__module__}.{owner.__name__}.{name}" in why
        assert f"; by the driver from now on: {why}" in str(accel.status())
    assert reasons("cqlengine") == {""}
    used(cls, 40)
    for used_model in (cls, model()):
        used(used_model)
        native, fallback = used(used_model)
        assert native > 60
        assert fallback == 0


@NATIVE
def test_other_models_stay_native(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(columns.Text):  # type: ignore[misc]
        @property
        def db_field_name(self) -> Any:
            return self.column_name

    class Odd(models.Model):  # type: ignore[misc]
        key = columns.Integer(primary_key=True)
        name = Own()
        tags = columns.List(columns.Integer)

    accel.accelerate()
    usual = model()
    assert used(Odd, 9)[1] > 0
    used(usual)
    assert used(usual)[1] == 0
    assert reasons("cqlengine") == {""}
    (note,) = accel.status().notes
    for text in (f"{Odd.__module__}.{Odd.__qualname__} is left", f"{Own.__qualname__}.db_field"):
        assert text in note
    assert note[:40] in str(accel.status())
    monkeypatch.delattr(Own, "db_field_name")
    # The accelerator makes a new plan for a model after 256 calls, or when the model's own class
    # changes. Here, only the class of a column has changed, so the calls are needed.
    used(Odd, 40)
    assert used(Odd)[1] == 0
    assert accel.status().notes == ()


def test_replaced_versions_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    accel.accelerate()
    versions = cassandra.ProtocolVersion
    assert reasons("bodies") == {""}
    own = versions.uses_int_query_flags
    replacement = classmethod(lambda cls, version: own(version))
    with monkeypatch.context() as patch:
        patch.setattr(versions, "uses_int_query_flags", replacement)
        message = protocol.QueryMessage("q", 1)
        message.send_body(io.BytesIO(), 4)
        why = "cassandra.ProtocolVersion.uses_int_query_flags has been replaced"
        assert reasons("bodies") == {why}
        assert seams()["protocol.QueryMessage.send_body"].fallback == 1
    assert reasons("bodies") == {""}


def test_a_replaced_encoder_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    accel.accelerate()
    own = encoder.Encoder.cql_encode_object
    monkeypatch.setattr(encoder.Encoder, "cql_encode_object", lambda self, value: own(self, value))
    query.bind_params("%s", (1,), encoder.Encoder())
    seam = seams()["query.bind_params"]
    assert (seam.native, seam.fallback) == (0, 1)
    assert seam.why == "cassandra.encoder.Encoder.cql_encode_object has been replaced"


@NATIVE
def test_a_replaced_class_of_values_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    accel.accelerate()
    cqltypes.SimpleDateType.deserialize(bytes(4), 4)
    monkeypatch.setattr(util, "Date", type("Date", (util.Date,), {}))
    seam = seams()["cqltypes.SimpleDateType.deserialize"]
    assert (seam.native, seam.patched) == (1, False)
    assert seam.why == "cassandra.util.Date has been replaced"


def test_a_replaced_watcher_of_types_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    accel.accelerate()
    assert accel.status().notes == ()
    metaclass = cqltypes.CassandraTypeType
    with monkeypatch.context() as patch:
        patch.setattr(metaclass, "__setattr__", type.__setattr__)
        (note,) = accel.status().notes
        assert note.endswith("cqltypes.CassandraTypeType.__setattr__ has been replaced")
    with monkeypatch.context() as patch:
        patch.setattr(metaclass, "__getattribute__", type.__getattribute__, raising=False)
        (note,) = accel.status().notes
        assert note.startswith("values are left to the driver")
    assert accel.status().notes == ()


def wrapped(function: Any) -> Callable[..., Any]:
    return lambda *arguments: function(*arguments)


def test_functions_that_other_code_replaced_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    accel.accelerate()
    monkeypatch.setattr(query.BoundStatement, "bind", wrapped(query.BoundStatement.bind))
    seam = seams()["query.BoundStatement.bind"]
    assert not seam.patched
    assert seam.why == "other code has replaced it since"
    assert seams()["query.BoundStatement.routing_key"].patched


PAGE = bytes.fromhex("00000002 00000001 00000001 0001 6b 0001 74 0001 63 000d 00000001 00000001 61")
ARRAYS = "protocol.NumpyProtocolHandler: recv_results_rows"


@pytest.mark.needs(protocol.NumpyProtocolHandler, "a handler that makes arrays")
@pytest.mark.parametrize("problem", ["", "they differ", "error"])
def test_arrays_are_compared_when_they_are_used(
    problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def difference(self: Any) -> str:
        if problem == "error":
            raise OSError("no file")
        return problem

    monkeypatch.setattr(_arrays.Arrays, "_difference", difference)
    accel.accelerate()
    assert seams()[ARRAYS].patched
    handler: Any = protocol.NumpyProtocolHandler
    cls = handler.message_types_by_opcode[protocol.ResultMessage.opcode]
    for _ in range(4):
        message, body = cls(2), io.BytesIO(PAGE)
        # Skips the kind of the result. The driver has read it before it reads rows.
        body.seek(4)
        message.recv_results_rows(body, 4, {}, None, None)
        assert message.parsed_rows["c"].tolist() == ["a"]
    seam = seams()[ARRAYS]
    assert (seam.native > 0) == (not problem and not SAFE)
    assert seam.why == {"error": "it could not be inspected: OSError('no file')"}.get(
        problem, problem
    )


def test_functions_that_wait_share_a_line() -> None:
    program = (
        "import turbocql.accel as a; a.accelerate()\nimport cassandra.concurrent; print(a.status())"
    )
    ended = run(sys.executable, "-c", program)
    assert ended.returncode == 0, ended.stderr
    waiting = [line for line in ended.stdout.splitlines() if "it waits for" in line]
    assert " ".join(" ".join(waiting).split()) == (
        "13 functions cqlengine it waits for cassandra.cqlengine.models to be imported"
    )
