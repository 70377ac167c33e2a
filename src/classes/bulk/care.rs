//! Facts about the table to which a load (see `turbocql._transfer.load`) writes. The facts contain
//! names of columns. For each statement, they are converted to a `turbocql_engine::WrittenTable`,
//! which contains indexes of the statement's bind markers instead.

use pyo3::prelude::*;
use turbocql_engine::{ListRead, Lists, Time, Times};

use crate::classes::statement::prepared::Prepared;

/// A statement that reads lists with their write times. Python passes it as a tuple.
#[derive(FromPyObject)]
struct ReadStatement {
    #[pyo3(item(0))]
    prepared: Py<Prepared>,
    /// The key columns to which the bind markers of the statement belong.
    #[pyo3(item(1))]
    key: Vec<String>,
    /// The list columns that the statement reads.
    #[pyo3(item(2))]
    lists: Vec<String>,
}

/// A column of vectors that has an index. Python passes it as a tuple.
#[derive(FromPyObject)]
struct IndexedVector {
    #[pyo3(item(0))]
    column: String,
    #[pyo3(item(1))]
    index: String,
    /// Whether the index uses cosine similarity.
    #[pyo3(item(2))]
    is_cosine: bool,
}

#[pyclass(frozen, module = "turbocql._core")]
pub struct Care {
    /// The list columns that are not frozen.
    pub opened: Vec<String>,
    statics: Vec<String>,
    /// The columns of the primary key. If static columns are written, only the columns of the
    /// partition key. Rows with equal values of these columns may write the same cells.
    key: Vec<String>,
    has_lists: bool,
    /// If set, the write time of row n is this time plus n.
    counted: Option<i64>,
    /// The write time that the caller has chosen, and the statements that read the stored lists.
    /// `None` if the caller has chosen no write times. The time alone is `None` if each row has its
    /// own write time, which is the value of the bind marker `[timestamp]`.
    chosen: Option<(Option<i64>, Vec<ReadStatement>)>,
    vectors: Vec<IndexedVector>,
    /// A statement that reads one row by its key, and the columns of that key. The engine executes
    /// the statement to check whether the row's replicas answer.
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
        chosen: Option<(Option<i64>, Vec<ReadStatement>)>,
        vectors: Vec<IndexedVector>,
        probe: Option<(String, Vec<String>)>,
    ) -> Care {
        Care { opened, statics, key, has_lists, counted, chosen, vectors, probe }
    }
}

impl Care {
    /// Returns the name of a vector column's index, and whether it uses cosine similarity.
    pub fn index_of(&self, column: &str) -> Option<(String, bool)> {
        let vector = self.vectors.iter().find(|vector| vector.column == column);
        vector.map(|vector| (vector.index.clone(), vector.is_cosine))
    }

    /// Returns the indexes of the bind markers whose values must be equal in all rows of a batch.
    pub fn same(&self, prepared: &Prepared) -> Vec<usize> {
        if self.statics.is_empty() {
            return Vec::new();
        }
        let settings = ["[ttl]", "[timestamp]"].map(str::to_owned);
        [markers(prepared, &self.statics), markers(prepared, &settings)].concat()
    }

    pub fn of(&self, prepared: &Prepared) -> turbocql_engine::WrittenTable {
        let marker = |name: &str| markers(prepared, &[name.to_owned()]).first().copied();
        let times = match (&self.chosen, self.counted) {
            (Some((time, reads)), _) => {
                let time = time.map(Time::Constant);
                let time = time.or_else(|| marker("[timestamp]").map(Time::Marker));
                let reads = reads.iter().map(|read| ListRead {
                    prepared: read.prepared.get().engine.clone(),
                    key: markers(prepared, &read.key),
                    lists: markers(prepared, &read.lists),
                });
                time.map_or(Times::Automatic, |time| Times::Chosen { time, reads: reads.collect() })
            }
            (None, Some(first)) => Times::Counted(first),
            (None, None) => Times::Automatic,
        };
        let lists = self.has_lists.then_some(Lists { times });
        let probe = self.probe.as_ref();
        turbocql_engine::WrittenTable {
            statics: markers(prepared, &self.statics),
            key: markers(prepared, &self.key),
            lists,
            has_indexes: !self.vectors.is_empty(),
            probe: probe.map(|(text, key)| (text.as_str().into(), markers(prepared, key))),
        }
    }
}

/// Returns the indexes of the bind markers that have these names.
fn markers(prepared: &Prepared, names: &[String]) -> Vec<usize> {
    let markers = prepared.engine.markers();
    let marker = |name: &String| markers.iter().position(|marker| marker.name == *name);
    names.iter().filter_map(marker).collect()
}
