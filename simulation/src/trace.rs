//! The trace of a run: lines that describe the events of the run.

use std::fs::File;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// The lines of a run, and a hash over all of them. Two runs that are equal have the same hash.
#[derive(Clone)]
pub struct Trace(Arc<Mutex<Lines>>);

struct Lines {
    began: Instant,
    hash: u64,
    /// The last lines; at most `most` of them.
    kept: std::collections::VecDeque<String>,
    most: usize,
    /// To this file, every line is written when it is added. So it has all lines up to the end of a
    /// run that crashes.
    output: Option<File>,
}

impl Trace {
    /// Makes a trace that keeps the last `most` lines. If it has a file for its output, writes all
    /// lines to this file, each with `| ` before it.
    pub fn new(most: usize, output: Option<File>) -> Trace {
        let lines = Lines {
            began: Instant::now(),
            hash: 0xcbf2_9ce4_8422_2325,
            kept: std::collections::VecDeque::new(),
            most,
            output,
        };
        Trace(Arc::new(Mutex::new(lines)))
    }

    pub fn line(&self, text: impl FnOnce() -> String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = format!("{:>9.3} s  {}", lines.began.elapsed().as_secs_f64(), text());
        for byte in line.bytes() {
            lines.hash = (lines.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(output) = &mut lines.output {
            let _ = output.write_all(format!("| {line}\n").as_bytes());
        }
        lines.kept.push_back(line);
        if lines.kept.len() > lines.most {
            lines.kept.pop_front();
        }
    }

    pub fn hash(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).hash
    }

    pub fn kept(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).kept.iter().cloned().collect()
    }
}
