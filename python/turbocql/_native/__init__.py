"""The Python that the Rust core calls: wake-ups, threads, row classes, and the names it imports."""
