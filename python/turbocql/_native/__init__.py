"""Python code that the Rust core calls: wakes, threads, row classes, and names that it imports."""
