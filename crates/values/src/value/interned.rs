//! Python classes and functions that values are made of, looked up once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

macro_rules! imported {
    ($($name:ident = $module:literal . $attribute:literal;)*) => {
        $(
            pub fn $name<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
                static CELL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                CELL.import_any(py, $module, $attribute)
            }
        )*
    };
}

trait ImportAny {
    fn import_any<'py>(
        &'static self,
        py: Python<'py>,
        module: &str,
        attribute: &str,
    ) -> PyResult<&'py Bound<'py, PyAny>>;
}

impl ImportAny for PyOnceLock<Py<PyAny>> {
    fn import_any<'py>(
        &'static self,
        py: Python<'py>,
        module: &str,
        attribute: &str,
    ) -> PyResult<&'py Bound<'py, PyAny>> {
        self.get_or_try_init(py, || Ok(py.import(module)?.getattr(attribute)?.unbind()))
            .map(|object| object.bind(py))
    }
}

/// A NumPy dtype: looked up by its name, which takes long.
macro_rules! dtypes {
    ($($name:ident = $dtype:literal;)*) => {
        $(
            pub fn $name<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
                static CELL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                let make = || Ok::<_, PyErr>(numpy_dtype(py)?.call1(($dtype,))?.unbind());
                CELL.get_or_try_init(py, make).map(|object| object.bind(py))
            }
        )*
    };
}

dtypes! {
    numpy_float32 = "float32";
    numpy_float64 = "float64";
    numpy_int32 = "int32";
    numpy_int64 = "int64";
}

imported! {
    numpy_dtype = "numpy"."dtype";
    decimal = "decimal"."Decimal";
    uuid = "uuid"."UUID";
    safe_uuid_unknown = "turbocql._records"."SAFE_UUID_UNKNOWN";
    ipv4_address = "ipaddress"."IPv4Address";
    ipv6_address = "ipaddress"."IPv6Address";
    dataclass_field = "turbocql._records"."DATACLASS_FIELD";
    mapping = "collections.abc"."Mapping";
    number = "numbers"."Number";
    real = "numbers"."Real";
    record_class = "turbocql._records"."record_class";
    pack = "turbocql._options"."pack";
    trace = "turbocql.cluster"."_trace";
    row_maker = "turbocql._row_classes"."row_maker";
    from_cassandra = "turbocql._cassandra"."cql_type";
    is_stock = "turbocql._cassandra"."is_stock";
    column_description = "turbocql._cassandra"."ColumnDescription";
    bytes_io = "io"."BytesIO";
    numpy_empty = "numpy"."empty";
    cql_date = "turbocql.types"."Date";
    cql_time = "turbocql.types"."Time";
    cql_timestamp = "turbocql.types"."Timestamp";
    cql_duration = "turbocql.types"."Duration";
    frozen_map = "turbocql.types"."FrozenMap";
    append_ready = "turbocql._notify"."append_ready";
    ready = "turbocql._notify"."Ready";
    done_future = "turbocql._notify"."DONE";
    tell = "turbocql._notify"."tell";
    tell_rest = "turbocql._notify"."tell_rest";
    context = "contextvars"."Context";
    c_task = "turbocql._notify"."C_TASK";
    release_held = "turbocql._core"."release_held";
    column = "turbocql.rows"."Column";
    unset = "turbocql.types"."UNSET";
    start_notifying = "turbocql._notify"."start";
    config_error = "turbocql.errors"."ConfigError";
    error = "turbocql.errors"."Error";
    encode_error = "turbocql.errors"."EncodeError";
    error_from_codec = "turbocql.errors"."from_codec";
    error_from_engine = "turbocql.errors"."from_engine";
    error_in_batch = "turbocql.errors"."in_batch";
    field_names = "turbocql._row_classes"."field_names";
    cancelled_error = "asyncio"."CancelledError";
    batch = "turbocql.statements"."Batch";
    bulk_report = "turbocql.bulk"."_report";
}
