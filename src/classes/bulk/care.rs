//! What a load knows of its table, by the names of columns: see `turbocql_engine::WrittenTable`.

use pyo3::prelude::*;
use turbocql_engine::{ListRead, Lists, Time, Times};

use crate::classes::statement::prepared::Prepared;

/// A statement that reads lists with their write times, the columns of its key, and the lists.
type Read = (Py<Prepared>, Vec<String>, Vec<String>);

#[pyclass(frozen, module = "turbocql._core")]
pub struct Care {
    /// Columns of lists that are not frozen.
    pub opened: Vec<String>,
    statics: Vec<String>,
    /// The columns by which rows write the same cells.
    key: Vec<String>,
    has_lists: bool,
    /// The write time of the row with the number 0, if times are counted from it.
    counted: Option<i64>,
    /// The write time that the program has chosen: a number, or `None` for that of a column; and
    /// what reads the lists.
    chosen: Option<(Option<i64>, Vec<Read>)>,
    /// The columns of vectors with an index, its name, and whether it compares by angles.
    vectors: Vec<(String, String, bool)>,
    /// A statement that reads whether a row is there, and the columns of its key.
    probe: Option<(String, Vec<String>)>,
}

#[pymethods]
impl Care {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the arguments of a Python call")]
    fn new(
        opened: Vec<String>,
        statics: Vec<String>,
        key: Vec<String>,
        has_lists: bool,
        counted: Option<i64>,
        chosen: Option<(Option<i64>, Vec<Read>)>,
        vectors: Vec<(String, String, bool)>,
        probe: Option<(String, Vec<String>)>,
    ) -> Care {
        Care { opened, statics, key, has_lists, counted, chosen, vectors, probe }
    }
}

impl Care {
    /// The index of a vector, and whether it compares by angles.
    pub fn index_of(&self, column: &str) -> Option<(String, bool)> {
        let found = self.vectors.iter().find(|(name, ..)| name == column);
        found.map(|(_, index, is_cosine)| (index.clone(), *is_cosine))
    }

    /// The bind markers whose values are equal in all rows of a batch.
    pub fn same(&self, prepared: &Prepared) -> Vec<usize> {
        if self.statics.is_empty() {
            return Vec::new();
        }
        let settings = ["[ttl]", "[timestamp]"].map(str::to_owned);
        [places(prepared, &self.statics), places(prepared, &settings)].concat()
    }

    pub fn of(&self, prepared: &Prepared) -> turbocql_engine::WrittenTable {
        let place = |name: &str| places(prepared, &[name.to_owned()]).first().copied();
        let times = match (&self.chosen, self.counted) {
            (Some((time, reads)), _) => {
                let time = time.map(Time::Constant);
                let time = time.or_else(|| place("[timestamp]").map(Time::Marker));
                let reads = reads.iter().map(|(read, key, lists)| ListRead {
                    prepared: read.get().engine.clone(),
                    key: places(prepared, key),
                    lists: places(prepared, lists),
                });
                time.map_or(Times::Automatic, |time| Times::Chosen { time, reads: reads.collect() })
            }
            (None, Some(first)) => Times::Counted(first),
            (None, None) => Times::Automatic,
        };
        let lists = self.has_lists.then_some(Lists { times });
        let probe = self.probe.as_ref();
        turbocql_engine::WrittenTable {
            statics: places(prepared, &self.statics),
            key: places(prepared, &self.key),
            lists,
            has_indexes: !self.vectors.is_empty(),
            probe: probe.map(|(text, key)| (text.as_str().into(), places(prepared, key))),
        }
    }
}

/// The places of the bind markers with these names.
fn places(prepared: &Prepared, names: &[String]) -> Vec<usize> {
    let markers = prepared.engine.markers();
    let place = |name: &String| markers.iter().position(|marker| marker.name == *name);
    names.iter().filter_map(place).collect()
}
