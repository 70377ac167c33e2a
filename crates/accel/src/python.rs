//! The Python classes that only this crate imports: see `turbocql_values::python`.

turbocql_values::imports! {
    bytes_io,
}
