//! Converts columns of pages to NumPy's layout, in which numbers of fixed width follow one another.
//! Passes the texts of text columns to a function, one by one.

use std::sync::Arc;

use turbocql_codec::types::{self, vector};
use turbocql_codec::{Column, CqlType, Malformed, Page, Segment};

use crate::batch::{BLOCK, broken, check, find};
use crate::column::cells::Cells;
use crate::column::{Outcome, refused};

/// A function that is called for each row, with the row's text, or with `None` for a null.
pub type Take<'a> = Box<dyn FnMut(Option<&str>) + 'a>;

/// Where the cells of a column go.
pub enum Sink<'a> {
    /// Memory for the values of the page's rows, and a list to which the index of each row with a
    /// null is added. This index counts from the first row of the result, not of the page.
    Numbers(&'a mut [u8], &'a mut Vec<usize>),
    Texts(Take<'a>),
    Nowhere,
}

/// Reads pages into sinks.
pub struct Reader {
    names: Arc<[Column]>,
    layouts: Vec<Option<Layout>>,
    spans: Vec<(u32, i32)>,
    /// The number of rows in the pages that were read.
    rows: usize,
}

impl Reader {
    pub fn new(columns: &Arc<[Column]>) -> Reader {
        Reader {
            names: Arc::clone(columns),
            layouts: columns.iter().map(|column| Layout::of(&column.cql_type)).collect(),
            spans: Vec::new(),
            rows: 0,
        }
    }

    /// Returns the layout of each column. It is `None` if the column's type has no layout.
    pub fn layouts(&self) -> &[Option<Layout>] {
        &self.layouts
    }

    pub fn columns(&self) -> &[Column] {
        &self.names
    }

    /// Checks a page before it is read.
    ///
    /// # Errors
    /// If the page's columns differ from the reader's columns, or if it has too few bytes for its
    /// number of rows.
    pub fn check(&self, page: &Page) -> Outcome<()> {
        check(page, &self.names)
    }

    /// Reads a page into the sinks.
    ///
    /// # Errors
    /// If the page cannot be read. The contents of the sinks are then invalid.
    pub fn append(&mut self, page: &Page, sinks: &mut [Sink<'_>]) -> Outcome<()> {
        check(page, &self.names)?;
        let (width, mut row, mut at) = (self.names.len(), 0, 0);
        while row < page.row_count {
            let rows = (page.row_count - row).min(BLOCK);
            let block = &page.rows[at..];
            let bytes = find(&mut self.spans, block, rows, width)?;
            for (number, sink) in sinks.iter_mut().enumerate() {
                let cells = Cells { block, spans: &self.spans[number * rows..][..rows] };
                let appended = match (sink, &self.layouts[number]) {
                    (Sink::Numbers(out, nulls), Some(layout)) => {
                        let size = layout.width();
                        let out = out.get_mut(row * size..(row + rows) * size).unwrap_or_default();
                        let first = self.rows + row;
                        layout.write(&cells, out, |row| nulls.push(first + row))
                    }
                    (Sink::Texts(take), _) => texts(&cells, take),
                    (Sink::Numbers(..) | Sink::Nowhere, _) => Ok(()),
                };
                appended.map_err(|(failed_row, malformed)| {
                    let column = &self.names[number];
                    let error = refused(&column.cql_type, malformed);
                    let error = error.at(Segment::Column(column.name.clone()));
                    error.at(Segment::Row(self.rows + row + failed_row))
                })?;
            }
            row += rows;
            at += bytes;
        }
        if at != page.rows.len() {
            return Err(broken(Malformed::Trailing(page.rows.len() - at)));
        }
        self.rows += page.row_count;
        Ok(())
    }
}

fn texts(cells: &Cells<'_>, take: &mut dyn FnMut(Option<&str>)) -> Result<(), (usize, Malformed)> {
    for (row, cell) in cells.iter().enumerate() {
        let text = cell.map(types::text::decode).transpose();
        take(text.map_err(|malformed| (row, malformed))?);
    }
    Ok(())
}

/// How the cells of a type are stored in an array.
#[derive(Clone, Debug)]
pub struct Layout {
    cql_type: CqlType,
    element: Element,
    /// The number of elements in a cell: the dimension of a vector, 1 for other types.
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    One,
    Two,
    Four,
    Eight,
    Boolean,
    /// A number of days: four bytes on the wire, eight in the array.
    Date,
}

/// A null vector of more elements than this is an error. In NumPy's layout, a null takes as much
/// memory as a value, so without this limit a server could make the client allocate much memory
/// just by a large dimension.
const LARGEST_NULL: usize = 65_536;

impl Layout {
    /// Returns the layout of a type whose values are numbers of fixed width or vectors of such
    /// numbers. Returns `None` for other types, and for vectors of `boolean`, `date`, `time` or
    /// `counter`.
    pub fn of(cql_type: &CqlType) -> Option<Layout> {
        let cql_type = cql_type.thawed();
        if let CqlType::Vector(element, dimension) = cql_type {
            let inner = Layout::of(element).filter(|inner| {
                inner.count == 1 && !matches!(inner.element, Element::Boolean | Element::Date)
            })?;
            let is_time = matches!(element.thawed(), CqlType::Time | CqlType::Counter);
            let count = *dimension as usize;
            return (!is_time).then(|| Layout { cql_type: cql_type.clone(), count, ..inner });
        }
        let element = match cql_type.kind() {
            "tinyint" => Element::One,
            "smallint" => Element::Two,
            "int" | "float" => Element::Four,
            "bigint" | "counter" | "double" | "timestamp" | "time" => Element::Eight,
            "boolean" => Element::Boolean,
            "date" => Element::Date,
            _ => return None,
        };
        Some(Layout { cql_type: cql_type.clone(), element, count: 1 })
    }

    /// Returns the size in bytes of a cell in the array.
    pub fn width(&self) -> usize {
        self.element.width() * self.count
    }

    /// Writes cells to `out`, which has exactly the size that they need. Calls `null` with the
    /// index in `cells` of each null.
    ///
    /// # Errors
    /// If a cell cannot be read, returns its index in `cells` and the reason.
    pub fn write(
        &self,
        cells: &Cells<'_>,
        out: &mut [u8],
        mut null: impl FnMut(usize),
    ) -> Result<(), (usize, Malformed)> {
        let width = self.width();
        if width == 0 {
            return Ok(());
        }
        for (row, (cell, out)) in cells.iter().zip(out.chunks_exact_mut(width)).enumerate() {
            match cell.filter(|bytes| !bytes.is_empty()) {
                Some(bytes) => self.put(bytes, out).map_err(|error| (row, error))?,
                None if self.count > LARGEST_NULL => {
                    let large = "a null among vectors of more than 65,536 elements";
                    return Err((row, Malformed::Invalid(large)));
                }
                None => {
                    out.fill(0);
                    null(row);
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn put(&self, bytes: &[u8], out: &mut [u8]) -> Result<(), Malformed> {
        if self.element == Element::Date {
            let days = i64::from(types::date::decode(bytes)?);
            out.copy_from_slice(&days.to_le_bytes());
            return Ok(());
        }
        if self.element == Element::Boolean {
            out[0] = u8::from(types::boolean::decode(bytes)?);
            return Ok(());
        }
        let size = self.element.width();
        let CqlType::Vector(element, _) = &self.cql_type else {
            return self.element.swap(bytes, out);
        };
        let bare = vector::element_width(element);
        let mut elements = vector::decode(bytes, self.count, bare)?;
        if bare.is_some() {
            return self.element.swap(bytes, out);
        }
        for out in out.chunks_exact_mut(size) {
            self.element.swap(elements.next_value()?, out)?;
        }
        elements.finish()
    }
}

impl Element {
    fn width(self) -> usize {
        match self {
            Element::One | Element::Boolean => 1,
            Element::Two => 2,
            Element::Four => 4,
            Element::Eight | Element::Date => 8,
        }
    }

    /// Copies numbers, each with its bytes in reverse order.
    #[inline]
    fn swap(self, bytes: &[u8], out: &mut [u8]) -> Result<(), Malformed> {
        if bytes.len() != out.len() {
            return Err(Malformed::Length(out.len(), bytes.len()));
        }
        match self {
            Element::One | Element::Boolean => out.copy_from_slice(bytes),
            Element::Two => swapped::<2>(bytes, out),
            Element::Four => swapped::<4>(bytes, out),
            Element::Eight | Element::Date => swapped::<8>(bytes, out),
        }
        Ok(())
    }
}

#[inline]
fn swapped<const N: usize>(bytes: &[u8], out: &mut [u8]) {
    let (from, _) = bytes.as_chunks::<N>();
    let (to, _) = out.as_chunks_mut::<N>();
    for (to, from) in to.iter_mut().zip(from) {
        let mut number = *from;
        number.reverse();
        *to = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary::page;

    #[test]
    fn numbers_lie_as_numpy_has_them() {
        let vector = CqlType::Vector(Box::new(CqlType::SmallInt), 2);
        let types = [CqlType::Int, CqlType::Date, vector, CqlType::Text, CqlType::Boolean];
        let rows: Vec<Vec<Option<Vec<u8>>>> = vec![
            vec![
                Some(vec![0, 0, 1, 2]),
                Some(vec![0x7f, 0xff, 0xff, 0xff]),
                Some(vec![2, 0, 1, 2, 0, 2]),
                Some(b"a".to_vec()),
                Some(vec![7]),
            ],
            vec![None, Some(vec![]), None, None, Some(vec![0])],
        ];
        let page = page(&types, &rows);
        let mut reader = Reader::new(&page.columns);
        let widths: Vec<_> =
            reader.layouts().iter().map(|layout| layout.as_ref().map(Layout::width)).collect();
        assert_eq!(widths, [Some(4), Some(8), Some(4), None, Some(1)]);
        let (mut int, mut date, mut vector, mut flags) = ([9; 8], [9; 16], [9; 8], [9; 2]);
        let mut nulls = [vec![], vec![], vec![], vec![]];
        let mut texts = Vec::new();
        {
            let [a, b, c, d] = &mut nulls;
            let take = |text: Option<&str>| texts.push(text.map(str::to_owned));
            let mut sinks = [
                Sink::Numbers(&mut int, a),
                Sink::Numbers(&mut date, b),
                Sink::Numbers(&mut vector, c),
                Sink::Texts(Box::new(take)),
                Sink::Numbers(&mut flags, d),
            ];
            reader.append(&page, &mut sinks).unwrap();
        }
        assert_eq!(int, [2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(date, [[0xff; 8], [0; 8]].concat()[..]);
        assert_eq!(vector, [1, 0, 2, 0, 0, 0, 0, 0]);
        assert_eq!(flags, [1, 0]);
        assert_eq!(nulls, [vec![1], vec![1], vec![1], vec![]]);
        assert_eq!(texts, [Some("a".to_owned()), None]);
    }

    #[test]
    fn errors_name_row_and_column() {
        let page = page(&[CqlType::Int], &[vec![None], vec![Some(vec![1])]]);
        let mut reader = Reader::new(&page.columns);
        let (mut out, mut nulls) = ([0; 8], Vec::new());
        reader.rows = 5;
        let error = reader.append(&page, &mut [Sink::Numbers(&mut out, &mut nulls)]).unwrap_err();
        let expected = "row 6, column \"c0\": malformed int: expected 4 bytes, got 1";
        assert_eq!(error.to_string(), expected);
    }
}
