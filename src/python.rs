//! The Python classes and functions that only this crate uses: see `turbocql_values::python`.

turbocql_values::imports! {
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
    notice_gevent,
    piece_thread,
    ready,
    release_held,
    start_notifying,
    trace,
    wait_in_hub,
    wake_remaining,
    wake_tasks,
}
