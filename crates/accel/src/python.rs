//! Looks up the Python classes that only this crate uses, as `turbocql_values::python` does.

turbocql_values::imports! {
    bytes_io,
}
