//! Turns columns into rows of an `execute_many`. The columns arrive in pieces. A piece has some
//! rows of all columns. In each piece, values that are Python objects are encoded first, while the
//! GIL is held. Then the rows are encoded while the GIL is released.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::python;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyString};
use turbocql_codec::{CodecError, RowBuffer, Segment};
use turbocql_columns::fit::Purpose;
use turbocql_columns::load::{self, Bound as BoundBatch, Marker, Nulls, Target};
use turbocql_columns::source::{Dropped, Encoded};
use turbocql_engine::Batches;
use turbocql_values::failure::Failure;
use turbocql_values::value::describe::nearest_and_all;

use crate::classes::bulk::care::Care;
use crate::classes::bulk::pieces::{Piece, Values};
use crate::classes::statement::prepared::Prepared;
use crate::op::{Arrival, OpState};

/// An arena is full as soon as it has `ARENA_ROWS` rows or at least `ARENA_BYTES` bytes.
pub const ARENA_ROWS: usize = 512;
pub const ARENA_BYTES: usize = 1 << 20;
/// If filling an arena has taken this long, the arena ends after at most 32 more rows. So an event
/// loop can run other callbacks.
pub const ARENA_TIME: Duration = Duration::from_millis(5);

/// Columns, and the options with which they become rows of bind values for a statement.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Columns {
    pieces: Mutex<Option<Py<PyIterator>>>,
    /// The names of the columns in the data, one for each bind marker. `None` if each column has
    /// the name of its marker.
    fields: Option<Vec<String>>,
    /// The names of the markers that must have a value in every row.
    keys: Vec<String>,
    /// Whether a null is sent as unset, so that it does not delete the stored value.
    leaves_nulls: bool,
    truncates: bool,
    /// Whether a separate thread takes the pieces from the caller's iterator, so that no event loop
    /// waits for them.
    on_thread: bool,
    /// Whether a piece is checked for nulls in `keys` before any of its rows is sent.
    checks_keys: bool,
    /// The maximum size of a batch in bytes, and whether batches are always used. If this flag is
    /// false, they are used only if a measurement shows that they are faster. `None` if batches are
    /// never used.
    batches: Option<(usize, bool)>,
    /// Facts about the table to which the statement writes. `None` if the caller wrote the
    /// statement: only a load (see `turbocql._transfer.load`), which makes its own statement, knows
    /// the facts.
    care: Option<Py<Care>>,
}

#[pymethods]
impl Columns {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the arguments of a Python call")]
    fn new(
        pieces: &Bound<'_, PyAny>,
        fields: Option<Vec<String>>,
        keys: Vec<String>,
        leaves_nulls: bool,
        truncates: bool,
        on_thread: bool,
        checks_keys: bool,
        batches: Option<(usize, bool)>,
        care: Option<Py<Care>>,
    ) -> PyResult<Columns> {
        let pieces = Mutex::new(Some(pieces.try_iter()?.unbind()));
        Ok(Columns {
            pieces,
            fields,
            keys,
            leaves_nulls,
            truncates,
            on_thread,
            checks_keys,
            batches,
            care,
        })
    }
}

impl Columns {
    /// Returns the options for putting rows of one partition into batches of this statement.
    pub fn batches(&self, prepared: &Prepared) -> Option<Batches> {
        let (most_bytes, always) = self.batches?;
        let markers = prepared.engine.markers();
        let marker_index = |key: &String| markers.iter().position(|marker| marker.name == *key);
        let key = self.keys.iter().map(marker_index).collect::<Option<Vec<_>>>()?;
        let same = self.care.as_ref().map_or_else(Vec::new, |care| care.get().same(prepared));
        Some(Batches { key, same, most_bytes, always })
    }

    /// Returns the facts about the table, with indexes of this statement's bind markers.
    pub fn care(&self, prepared: &Prepared) -> turbocql_engine::WrittenTable {
        self.care.as_ref().map(|care| care.get().of(prepared)).unwrap_or_default()
    }
}

/// The result of filling an arena.
pub struct Filled {
    /// The number of each row that is in the arena.
    pub numbers: Vec<u64>,
    /// The numbers of rows that could not be encoded, and the errors.
    pub unfit: Vec<(u64, Box<CodecError>)>,
    pub state: State,
}

pub enum State {
    More,
    /// The thread that takes the pieces has not taken the next piece yet. When it has taken the
    /// piece, it wakes the operation.
    Awaited,
    Ended,
    /// The rest of the data cannot be read. The rows before it are sent.
    Failed(PyErr),
}

enum Pieces {
    Here(Py<PyIterator>),
    /// A Python thread takes the pieces: see `turbocql._native.threads`.
    OnThread(Py<PyAny>),
}

/// A callable that wakes the operation. The thread that takes the pieces calls it when it has taken
/// a piece for which the operation waits.
#[pyclass(frozen, module = "turbocql._core")]
struct Wake(Weak<OpState>);

#[pymethods]
impl Wake {
    fn __call__(&self) {
        if let Some(op) = self.0.upgrade() {
            op.arrive(Ok(Arrival::WantsMore));
        }
    }
}

enum Next {
    Piece(Py<Piece>),
    Awaited,
    End,
}

/// A piece that has rows left to encode.
struct Current {
    bound: BoundBatch,
    rows: usize,
    next: usize,
}

pub struct Feed {
    pieces: Pieces,
    target: Arc<Target>,
    /// Whether a piece is checked for nulls in the key columns before any of its rows is sent.
    checks_keys: bool,
    /// Whether a column without a bind marker is an error.
    takes_all: bool,
    current: Option<Current>,
    next_row: u64,
}

impl Feed {
    /// Takes the iterator of pieces out of `columns`, reads the first piece, and checks the
    /// columns.
    ///
    /// # Errors
    /// If the pieces were taken before, if the first piece cannot be read, or if its columns do not
    /// fit the statement.
    pub fn start(
        py: Python<'_>,
        columns: &Columns,
        prepared: &Prepared,
        op: &Arc<OpState>,
    ) -> PyResult<Feed> {
        let pieces = columns.pieces.lock().unwrap_or_else(PoisonError::into_inner).take();
        let pieces = pieces.ok_or_else(crate::classes::session::state::out_of_turn)?;
        let (markers, partition_key) = (prepared.engine.markers(), prepared.engine.partition_key());
        let markers = markers.iter().enumerate().map(|(number, column)| {
            let name = column.name.as_str();
            let is_key = columns.keys.iter().any(|key| key == name);
            let field = columns.fields.as_ref().and_then(|fields| fields.get(number));
            Marker {
                field: field.map_or(name, String::as_str).to_owned(),
                purpose: match name {
                    "[timestamp]" => Purpose::WriteTime,
                    "[ttl]" => Purpose::Life,
                    _ => Purpose::Column,
                },
                nulls: match name {
                    _ if is_key || partition_key.contains(&number) => Nulls::Refused,
                    "[ttl]" | "[timestamp]" => Nulls::Unset,
                    _ if columns.leaves_nulls => Nulls::Unset,
                    _ => Nulls::Null,
                },
                within: columns
                    .care
                    .as_ref()
                    .map(|care| !care.get().opened.iter().any(|opened| opened == name)),
                index: columns.care.as_ref().and_then(|care| care.get().index_of(name)),
                column: column.clone(),
            }
        });
        let dropped = if columns.truncates { Dropped::Yes } else { Dropped::No };
        let target = Target::new(markers.collect(), dropped);
        let mut feed = Feed {
            pieces: Pieces::Here(pieces),
            target,
            checks_keys: columns.checks_keys,
            takes_all: columns.fields.is_none(),
            current: None,
            next_row: 0,
        };
        // The first piece has the columns, but no rows. It exists so that the types of the columns
        // are checked before any row is read.
        if let Next::Piece(piece) = feed.pull(py)? {
            feed.bind(py, piece.get(), prepared)?;
        }
        if columns.on_thread
            && let Pieces::Here(pieces) = &feed.pieces
        {
            let wake = Bound::new(py, Wake(Arc::downgrade(op)))?;
            let pieces = python::piece_thread(py)?.call1((pieces, wake))?;
            feed.pieces = Pieces::OnThread(pieces.unbind());
        }
        Ok(feed)
    }

    pub fn next_row(&self) -> u64 {
        self.next_row
    }

    fn pull(&mut self, py: Python<'_>) -> PyResult<Next> {
        let piece = match &self.pieces {
            Pieces::Here(pieces) => take(py, pieces)?,
            Pieces::OnThread(pieces) => {
                let piece = pieces.bind(py).call_method0(pyo3::intern!(py, "take"))?;
                if piece.is_none() {
                    return Ok(Next::Awaited);
                }
                // Any object that is neither None nor a piece marks the end.
                piece.cast_into::<Piece>().ok().map(Bound::unbind)
            }
        };
        Ok(piece.map_or(Next::End, Next::Piece))
    }

    /// Moves to the next piece and returns `None`. If no piece is available, returns
    /// `State::Awaited` or `State::Ended`.
    fn advance(&mut self, py: Python<'_>, prepared: &Prepared) -> PyResult<Option<State>> {
        match self.pull(py)? {
            Next::Piece(piece) => self.bind(py, piece.get(), prepared).map(|()| None),
            Next::Awaited => Ok(Some(State::Awaited)),
            Next::End => Ok(Some(State::Ended)),
        }
    }

    /// Makes `piece` the current piece, whose rows are encoded next.
    fn bind(&mut self, py: Python<'_>, piece: &Piece, prepared: &Prepared) -> PyResult<()> {
        let values = self.values(py, piece, prepared)?;
        let unfit = |error| prepared.unfit(py, Box::new(Failure::Refused(error, None)));
        let target = Arc::clone(&self.target);
        let bound = py.detach(|| target.bind(values)).map_err(unfit)?;
        self.next_row = piece.first_row.unwrap_or(self.next_row);
        if self.checks_keys
            && let Some((row, error)) = py.detach(|| bound.missing(piece.rows))
        {
            let row = self.next_row as usize + row;
            return Err(unfit(error.at(Segment::Row(row))));
        }
        self.current = Some(Current { bound, rows: piece.rows, next: 0 });
        Ok(())
    }

    /// Returns the values for each bind marker.
    fn values(
        &self,
        py: Python<'_>,
        piece: &Piece,
        prepared: &Prepared,
    ) -> PyResult<Vec<load::Values>> {
        let refused = |reason: String| {
            let error = CodecError::new("columns", reason);
            prepared.unfit(py, Box::new(Failure::Refused(error, None)))
        };
        let markers = self.target.markers();
        let is_known = |name: &String| markers.iter().any(|marker| marker.field == *name);
        if self.takes_all
            && let Some(unknown) = piece.names.iter().find(|name| !is_known(name))
        {
            let names: Vec<&str> =
                markers.iter().map(|marker| marker.column.name.as_str()).collect();
            let names = nearest_and_all(&PyString::new(py, unknown), &names, "it has:");
            return Err(refused(format!(
                "the data has a column {unknown:?}, for which the statement has no bind marker{names}"
            )));
        }
        let mut values = Vec::with_capacity(markers.len());
        for (number, marker) in markers.iter().enumerate() {
            let name = &marker.field;
            let mut columns = (0..piece.names.len()).filter(|&column| piece.names[column] == *name);
            let Some(column) = columns.next() else {
                return Err(refused(format!("the data has no column {name:?}")));
            };
            if columns.next().is_some() {
                return Err(refused(format!("the data has two columns {name:?}")));
            }
            values.push(match &piece.values[column] {
                Values::Arrow(field, array) => load::Values::Arrow(field.clone(), array.clone()),
                Values::Objects(list) => {
                    let mut encoded = Encoded::default();
                    for (row, value) in list.bind(py).iter().enumerate() {
                        // A null in a key column is not refused here. Later code refuses it, as it
                        // also refuses nulls in Arrow arrays.
                        let encoded_cell = if value.is_none() {
                            encoded.cells.push_null();
                            Ok(())
                        } else {
                            prepared.plan.encode_marker(number, Some(value), &mut encoded.cells)
                        };
                        // Even if the encoding failed, the row is finished, without a cell. So
                        // later rows keep their numbers.
                        encoded.cells.finish_row();
                        let Err(failure) = encoded_cell else { continue };
                        match *failure {
                            Failure::Refused(error, _) => {
                                encoded.refused.insert(row, error);
                            }
                            Failure::Raised(error) => return Err(error),
                        }
                    }
                    load::Values::Encoded(Arc::new(encoded))
                }
            });
        }
        Ok(values)
    }

    /// Encodes rows until one of three things happens: the arena is full, the next piece is not
    /// available, or more than `most_failures` rows could not be encoded.
    pub fn fill(
        &mut self,
        py: Python<'_>,
        prepared: &Prepared,
        arena: &mut RowBuffer,
        most_failures: usize,
    ) -> Filled {
        let begun = Instant::now();
        let (mut numbers, mut unfit) = (Vec::with_capacity(ARENA_ROWS), Vec::new());
        loop {
            let next_row = &mut self.next_row;
            if let Some(current) = &mut self.current {
                py.detach(|| {
                    while current.next < current.rows
                        && arena.len() < ARENA_ROWS
                        && arena.byte_len() < ARENA_BYTES
                    {
                        // Reading the clock costs as much as a small row, so it is read rarely.
                        if current.next % 32 == 31 && begun.elapsed() >= ARENA_TIME {
                            break;
                        }
                        match current.bound.encode(current.next, arena) {
                            Ok(()) => numbers.push(*next_row),
                            Err(error) => unfit.push((*next_row, error)),
                        }
                        current.next += 1;
                        *next_row += 1;
                        if unfit.len() > most_failures {
                            break;
                        }
                    }
                });
                if current.next < current.rows {
                    return Filled { numbers, unfit, state: State::More };
                }
                self.current = None;
            }
            let state = if is_full(arena, begun) {
                State::More
            } else {
                match self.advance(py, prepared) {
                    Ok(None) => continue,
                    Ok(Some(state)) => state,
                    Err(error) => State::Failed(error),
                }
            };
            return Filled { numbers, unfit, state };
        }
    }
}

fn is_full(arena: &RowBuffer, begun: Instant) -> bool {
    arena.len() >= ARENA_ROWS || arena.byte_len() >= ARENA_BYTES || begun.elapsed() >= ARENA_TIME
}

fn take(py: Python<'_>, pieces: &Py<PyIterator>) -> PyResult<Option<Py<Piece>>> {
    let next = pieces.bind(py).clone().next().transpose()?;
    Ok(next.map(|piece| piece.cast_into::<Piece>()).transpose()?.map(Bound::unbind))
}
