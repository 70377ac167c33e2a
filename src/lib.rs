//! The private native core of the `turbocql` package.
#![deny(unsafe_code)]

mod classes;
mod error;
mod ffi;
mod op;
mod options;
mod python;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The native core of turbocql. It is private and may change at any time.
///
/// The module supports interpreters built without the GIL: the import does not switch the GIL on.
#[pyo3::pymodule(gil_used = false)]
mod _core {
    use turbocql_values::ffi::quick_path::QuickPath;

    #[pymodule_export]
    use crate::classes::bulk::care::Care;
    #[pymodule_export]
    use crate::classes::bulk::execute_many::{BulkProgress, BulkSnapshot};
    #[pymodule_export]
    use crate::classes::bulk::feeding::Columns;
    #[pymodule_export]
    use crate::classes::bulk::pieces::{ArrowColumn, ArrowStream, Piece};
    #[pymodule_export]
    use crate::classes::bulk::verifying::EncodedColumns;
    #[pymodule_export]
    use crate::classes::request::call::{execute, execute_when_awaited};
    #[pymodule_export]
    use crate::classes::result::arrays::PageArrays;
    #[pymodule_export]
    use crate::classes::result::columns::{Batch, Gatherer, RawPage};
    #[pymodule_export]
    use crate::classes::result::cursor::Cursor;
    #[pymodule_export]
    use crate::classes::result::row_iteration::{AsyncRowIterator, RowIterator, RowStep};
    #[pymodule_export]
    use crate::classes::session::opening::connect;
    #[pymodule_export]
    use crate::classes::session::secret::Secret;
    #[pymodule_export]
    use crate::classes::session::state::{Session, forked};
    #[pymodule_export]
    use crate::classes::session::telemetry::{Events, SessionEvent, latency_bounds_us};
    #[pymodule_export]
    use crate::classes::statement::prepared::{Bound_, Prepared, Query};
    #[pymodule_export]
    use crate::op::Op;
    #[pymodule_export]
    use crate::op::awaiting::OpAwait;
    #[pymodule_export]
    use crate::op::bridge::{Drain, Known, Requests};
    #[pymodule_export]
    use crate::op::descriptor::waker;
    #[pymodule_export]
    use crate::op::greenlets::{HubWaits, let_greenlets_run};
    #[pymodule_export]
    use crate::op::ready::release_held;
    #[pymodule_export]
    use crate::options::check_batch_options;
    #[pymodule_export]
    use turbocql_accel::convert::refused::{accel_forget_refused, accel_refused};
    #[pymodule_export]
    use turbocql_accel::ffi::cassandra_util::accel_values;
    #[pymodule_export]
    use turbocql_accel::reader::ValueReader;
    #[pymodule_export]
    use turbocql_accel::scalars::ReadWays;
    #[pymodule_export]
    use turbocql_accel::stand_ins::bind::{BindPlan, BindStandIn};
    #[pymodule_export]
    use turbocql_accel::stand_ins::body::BodyStandIn;
    #[pymodule_export]
    use turbocql_accel::stand_ins::concurrent::{ExecutorStandIn, Executors};
    #[pymodule_export]
    use turbocql_accel::stand_ins::deserialize::DeserializeStandIn;
    #[pymodule_export]
    use turbocql_accel::stand_ins::frames::{DecodeStandIn, EncodeStandIn, FrameStandIn, Frames};
    #[pymodule_export]
    use turbocql_accel::stand_ins::key_parts::{KeyPartsStandIn, PackedParts};
    #[pymodule_export]
    use turbocql_accel::stand_ins::lazy::LazyRows;
    #[pymodule_export]
    use turbocql_accel::stand_ins::literals::LiteralsStandIn;
    #[pymodule_export]
    use turbocql_accel::stand_ins::mapper::{Mapper, MapperStandIn};
    #[pymodule_export]
    use turbocql_accel::stand_ins::marshal::MarshalStandIn;
    #[pymodule_export]
    use turbocql_accel::stand_ins::named::NamedStandIn;
    #[pymodule_export]
    use turbocql_accel::stand_ins::pool::{BorrowStandIn, Pools, ReturnStandIn};
    #[pymodule_export]
    use turbocql_accel::stand_ins::query_plan::{PlanStandIn, QueryPlan, Shuffle};
    #[pymodule_export]
    use turbocql_accel::stand_ins::response::events::ThreadEvents;
    #[pymodule_export]
    use turbocql_accel::stand_ins::response::{
        CreateStandIn, FutureMaker, QueryStandIn, RequestSender, ResponseStandIn, Responses,
    };
    #[pymodule_export]
    use turbocql_accel::stand_ins::result::ResultStandIn;
    #[pymodule_export]
    use turbocql_accel::stand_ins::result_plan::ResultPlan;
    #[pymodule_export]
    use turbocql_accel::stand_ins::result_set::ResultSets;
    #[pymodule_export]
    use turbocql_accel::stand_ins::routing::RoutingStandIn;
    #[pymodule_export]
    use turbocql_accel::stand_ins::segment::SegmentStandIn;
    #[pymodule_export]
    use turbocql_accel::stand_ins::sending::{SendStandIn, Sending};
    #[pymodule_export]
    use turbocql_accel::stand_ins::serialize::{SerializeStandIn, TypePlan};
    #[pymodule_export]
    use turbocql_accel::stand_ins::timer::TimerStandIn;
    #[pymodule_export]
    use turbocql_accel::stand_ins::usual::Usual;
    #[pymodule_export]
    use turbocql_accel::switch::{accel_changed, accel_enable};
    #[pymodule_export]
    use turbocql_values::classes::codec::{Deserializer, Serializer, routing_key, token_of};
    #[pymodule_export]
    use turbocql_values::classes::cql_type::CqlType_;
    #[pymodule_export]
    use turbocql_values::classes::encoded_rows::{EncodedRow, EncodedRows};
    #[pymodule_export]
    use turbocql_values::classes::message::batch_message::BatchMessage;
    #[pymodule_export]
    use turbocql_values::classes::message::{ExecuteMessage, QueryMessage};
    #[pymodule_export]
    use turbocql_values::classes::row_encoder::RowEncoder;
    #[pymodule_export]
    use turbocql_values::classes::rows_decoder::{ResultRows, RowsDecoder};
    #[pymodule_export]
    use turbocql_values::ending::ending;
    #[pymodule_export]
    use turbocql_values::ffi::interpreter::interpreter;
    #[pymodule_export]
    use turbocql_values::ffi::quick_path::{force_safe, quick_paths};

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        let py = module.py();
        // The interpreter is checked first. The objects that are looked up below are kept until the
        // process ends, so they must belong to the main interpreter.
        if turbocql_values::ffi::interpreter::interpreter(py) != 0 {
            let reason = "turbocql works in the main interpreter only: its native code supports \
                          one interpreter per process";
            return Err(pyo3::exceptions::PyImportError::new_err(reason));
        }
        turbocql_values::python::prepare(py)?;
        QuickPath::Coroutines.decide(py, |py| {
            let wrong = crate::ffi::send::install::<OpAwait>(py)?;
            if wrong.is_some() { Ok(wrong) } else { crate::ffi::send::install::<RowStep>(py) }
        })?;
        turbocql_values::ffi::prepare(py)?;
        turbocql_accel::ffi::prepare(py)?;
        crate::ffi::handle::prepare(py)?;
        QuickPath::Serialize.decide(py, turbocql_values::ffi::method::install::<Serializer>)?;
        Ok(())
    }

    #[pymodule_export]
    const VERSION: &str = if turbocql_engine::ENGINE_EDITS.is_empty() {
        concat!(env!("CARGO_PKG_VERSION"), "+unedited")
    } else {
        env!("CARGO_PKG_VERSION")
    };
    #[pymodule_export]
    const ENGINE_VERSION: &str = turbocql_engine::ENGINE_VERSION;
    #[pymodule_export]
    const ENGINE_EDITS: &str = turbocql_engine::ENGINE_EDITS;
    #[pymodule_export]
    const TLS_BACKEND: &str = turbocql_engine::TLS_BACKEND;
    /// The build profile: `debug` or `release`. Wheels are built with `release`.
    #[pymodule_export]
    const BUILD_PROFILE: &str = if cfg!(debug_assertions) { "debug" } else { "release" };
    #[pymodule_export]
    const ALLOCATOR: &str = if cfg!(feature = "mimalloc") { "mimalloc" } else { "system" };
}
