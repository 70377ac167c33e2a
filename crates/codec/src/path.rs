//! The place of an error inside a value.

use std::fmt;

/// One step from a value into one of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// A row, by its position among the rows that are encoded or decoded, counted from 0.
    Row(usize),
    /// A column or bind marker, by name.
    Column(String),
    /// An element of a list, set, tuple or vector.
    Index(usize),
    /// The key of a map's entry, by the entry's position.
    MapKey(usize),
    /// The value of a map's entry, by the entry's key as text.
    MapValue(String),
    /// A field of a user-defined type.
    Field(String),
}

/// The path from a row or column to the part of the value at which encoding or decoding failed.
///
/// Steps are added while an error is returned through the callers, so the innermost step is added
/// first. If there is no error, no steps are recorded, so they cost nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(Vec<Segment>);

impl Path {
    /// Adds a step that encloses all steps recorded so far.
    pub fn push_outer(&mut self, segment: Segment) {
        self.0.push(segment);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces the keys of maps with `…`, for errors that must not show values.
    pub fn hide_keys(&mut self) {
        for segment in &mut self.0 {
            if let Segment::MapValue(key) = segment {
                "…".clone_into(key);
            }
        }
    }

    /// Returns the steps, outermost first.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.0.iter().rev()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.segments().enumerate() {
            match segment {
                Segment::Row(number) => write!(f, "row {number}")?,
                Segment::Column(name) => {
                    let after_row = if i == 0 { "" } else { ", " };
                    write!(f, "{after_row}column \"{name}\"")?;
                }
                Segment::Index(_)
                | Segment::MapKey(_)
                | Segment::MapValue(_)
                | Segment::Field(_) => {
                    let root = if i == 0 { "value" } else { "" };
                    write!(f, "{root}{}", Step(segment))?;
                }
            }
        }
        Ok(())
    }
}

struct Step<'a>(&'a Segment);

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Segment::Row(number) => write!(f, "{number}"),
            Segment::Column(name) => write!(f, "{name}"),
            Segment::Index(i) => write!(f, "[{i}]"),
            Segment::MapKey(i) => write!(f, "[key #{i}]"),
            Segment::MapValue(key) => write!(f, "[{key}]"),
            Segment::Field(name) => write!(f, ".{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_outermost_first() {
        let mut path = Path::default();
        path.push_outer(Segment::Index(3));
        path.push_outer(Segment::MapValue("'a'".into()));
        assert_eq!(path.to_string(), "value['a'][3]");
        path.push_outer(Segment::Column("tags".into()));
        assert_eq!(path.to_string(), "column \"tags\"['a'][3]");
        path.push_outer(Segment::Row(7));
        assert_eq!(path.to_string(), "row 7, column \"tags\"['a'][3]");
    }
}
