//! Describes Python values in error messages: briefly, and without running user code.

use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
};

use crate::python;

/// The maximum number of characters of a value's text in a message.
pub const SHOWN: usize = 40;

/// The maximum number of characters of a class name in a message.
const NAMED: usize = 200;

/// Describes a value by its type. The text, number or length is added for values of the exact
/// built-in classes that `rendered` lists. Other values are not rendered, so that no user code
/// runs.
pub fn describe(value: &Bound<'_, PyAny>) -> String {
    if value.is_none() {
        return "None".to_owned();
    }
    let type_name = type_name(value);
    match rendered(value) {
        Some(text) => format!("{type_name} {text}"),
        None => type_name,
    }
}

/// Describes a map's key in a path. The type name of text and integers is left out.
pub fn describe_key(key: &Bound<'_, PyAny>) -> String {
    let described = describe(key);
    described.strip_prefix("str ").or(described.strip_prefix("int ")).unwrap_or(&described).into()
}

/// If a message suggests the nearest name, it lists all names only if there are at most this many.
/// `_checks.py` has the same limit.
const NAMES_AFTER_HINT: usize = 10;

/// Returns the end of a sentence about an unknown name: the nearest of `names`, if one is near, and
/// the list of `names`, as in `; did you mean a? It has: a, b`. `lead` is the text before
/// the list, here `it has:`. After a question such as `did you mean a?`, its first letter becomes a
/// capital. A long list is left out if one of the names is near.
pub fn nearest_and_all(unknown: &Bound<'_, PyAny>, names: &[&str], lead: &str) -> String {
    let all = if names.is_empty() { "none".to_owned() } else { cut(&names.join(", "), 1000) };
    let hint = did_you_mean(unknown, names);
    if !hint.is_empty() && names.len() > NAMES_AFTER_HINT {
        return hint;
    }
    if hint.is_empty() {
        return format!("; {lead} {all}");
    }
    let (first, others) = lead.split_at(1);
    format!("{hint} {}{others} {all}", first.to_uppercase())
}

/// Returns the nearest of `names`, as in `; did you mean a?`. The text is empty if none is near.
pub fn did_you_mean(unknown: &Bound<'_, PyAny>, names: &[&str]) -> String {
    // A subclass of `str` may run user code.
    let Ok(unknown) = unknown.cast_exact::<PyString>() else { return String::new() };
    let hint = python::did_you_mean(unknown.py())
        .and_then(|find| find.call1((unknown, names.to_vec()))?.extract());
    hint.unwrap_or_default()
}

/// Returns the name of the value's class. The module is included unless the class is a built-in.
pub fn type_name(value: &Bound<'_, PyAny>) -> String {
    match value.get_type().fully_qualified_name() {
        Ok(name) => cut(&name.to_string_lossy(), NAMED),
        Err(_) => "an object".to_owned(),
    }
}

fn rendered(value: &Bound<'_, PyAny>) -> Option<String> {
    if value.is_exact_instance_of::<PyBool>() || value.is_exact_instance_of::<PyFloat>() {
        return Some(value.repr().ok()?.to_string_lossy().into_owned());
    }
    if value.is_exact_instance_of::<PyInt>() {
        // The digits of a huge int take long to compute, and CPython refuses to compute more than
        // 4300 digits by default.
        return Some(match value.extract::<i128>() {
            Ok(small) => small.to_string(),
            Err(_) => "of more than 128 bits".to_owned(),
        });
    }
    if let Ok(text) = value.cast_exact::<PyString>() {
        return Some(match text.to_str() {
            Ok(text) => shorten(text),
            Err(_) => "with a lone surrogate".to_owned(),
        });
    }
    let length = if let Ok(list) = value.cast_exact::<PyList>() {
        list.len()
    } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        tuple.len()
    } else if let Ok(dict) = value.cast_exact::<PyDict>() {
        dict.len()
    } else if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        bytes.as_bytes().len()
    } else if let Ok(bytes) = value.cast_exact::<PyByteArray>() {
        bytes.len()
    } else {
        return None;
    };
    Some(format!("of length {length}"))
}

fn shorten(text: &str) -> String {
    format!("{:?}", cut(text, SHOWN))
}

/// Returns the first `characters` characters of a text, followed by `…` if the text is longer.
pub fn cut(text: &str, characters: usize) -> String {
    let mut shown: String = text.chars().take(characters).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
