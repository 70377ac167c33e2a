//! The Python classes and functions that only this crate uses: see `turbocql_values::python`.

turbocql_values::imports! {
    apart,
    append_ready,
    batch,
    bulk_report,
    c_task,
    cancelled_error,
    context,
    done_future,
    error,
    error_from_engine,
    error_in_batch,
    ready,
    release_held,
    start_notifying,
    tell,
    tell_rest,
    trace,
}
