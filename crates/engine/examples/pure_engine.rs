//! Measures the ScyllaDB driver alone, without Python. turbocql uses this driver, so in the
//! end-to-end benchmark the times of turbocql cannot be lower than the times of this program.
//!
//!     pure_engine CONTACT_POINT STATEMENT SALT IN_FLIGHT FIRST_KEY:REQUESTS... < VECTORS
//!
//! Each `FIRST_KEY:REQUESTS` is a pass that writes `REQUESTS` rows, each with a key and a text. The
//! keys count up from `FIRST_KEY`. The text contains the key and the number `SALT`. A pass has
//! `IN_FLIGHT` loops, and each loop sends one request after another. For each pass, the program
//! prints the CPU time and the elapsed time in nanoseconds. If the standard input contains encoded
//! vectors, one after another, the program writes them instead of texts. `bench/` runs this
//! program.

use std::cell::Cell;
use std::io::Read;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::metadata::ColumnType;
use scylla::errors::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tokio::task::LocalSet;

type Failure = Box<dyn std::error::Error>;

/// The number of vectors that bench/suites/requests/data.py makes.
const VECTORS: usize = 512;

/// A value that is already encoded.
struct Ready<'a>(&'a [u8]);

impl SerializeValue for Ready<'_> {
    fn serialize<'b>(
        &self,
        _: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        writer.set_value(self.0).map_err(SerializationError::new)
    }
}

struct Rows {
    salt: usize,
    /// The encoded vectors. The field is empty if the rows have texts.
    vectors: Vec<u8>,
}

impl Rows {
    fn vector(&self, key: i32) -> Ready<'_> {
        let number = (key as usize * 31 + self.salt) % VECTORS;
        let size = self.vectors.len() / VECTORS;
        Ready(&self.vectors[number * size..][..size])
    }

    async fn write(
        &self,
        session: &Session,
        prepared: &PreparedStatement,
        key: i32,
    ) -> Result<(), Failure> {
        if self.vectors.is_empty() {
            let text = format!("value {key} {}", self.salt);
            session.execute_unpaged(prepared, (key, text)).await?;
        } else {
            let vector = self.vector(key);
            session.execute_unpaged(prepared, (key, vector)).await?;
        }
        Ok(())
    }
}

/// The user and system time of this process.
fn processor_time() -> Duration {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(usage.tv_sec as u64, usage.tv_nsec as u32)
}

async fn run(arguments: &[String]) -> Result<(), Failure> {
    let [contact_point, statement, salt, in_flight, passes @ ..] = arguments else {
        return Err("wants CONTACT_POINT STATEMENT SALT IN_FLIGHT FIRST_KEY:REQUESTS...".into());
    };
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::LocalOne)
        .speculative_execution_policy(None)
        .build();
    let session = SessionBuilder::new()
        .known_node(contact_point)
        .default_execution_profile_handle(profile.into_handle())
        .fetch_full_schema_metadata(false)
        .build()
        .await?;
    let prepared = session.prepare(statement.as_str()).await?;
    let (session, prepared) = (Arc::new(session), Arc::new(prepared));
    let mut vectors = Vec::new();
    std::io::stdin().read_to_end(&mut vectors)?;
    let rows = Rc::new(Rows { salt: salt.parse()?, vectors });
    let in_flight: usize = in_flight.parse()?;
    for pass in passes {
        let (first, count) = pass.split_once(':').ok_or("wants FIRST_KEY:REQUESTS")?;
        let next = Rc::new(Cell::new(first.parse::<i32>()?));
        let end = next.get() + count.parse::<i32>()?;
        let (began, processor) = (Instant::now(), processor_time());
        let loops = (0..in_flight).map(|_| {
            let (session, prepared) = (Arc::clone(&session), Arc::clone(&prepared));
            let (rows, next) = (Rc::clone(&rows), Rc::clone(&next));
            tokio::task::spawn_local(async move {
                while next.get() < end {
                    let key = next.replace(next.get() + 1);
                    rows.write(&session, &prepared, key).await.map_err(|e| e.to_string())?;
                }
                Ok::<_, String>(())
            })
        });
        for task in loops.collect::<Vec<_>>() {
            task.await??;
        }
        let (processor, wall) = (processor_time() - processor, began.elapsed());
        println!("{} {}", processor.as_nanos(), wall.as_nanos());
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(LocalSet::new().run_until(run(&arguments)))
}

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;
