"""The audit under faults runs a workload on three nodes, injects faults and checks every call.

`load.py` runs the workload, "the load": it makes calls of turbocql in its own process and records
each call. `proxy.py` runs a proxy in front of each node. `faults.py` injects faults from a seed.
`state.py` reads the rows that the nodes have stored, without a session of turbocql. `audit.py`
compares the records with the stored rows. `run.py` uses all these modules. `soak.py` runs the long
form (`make soak`), and `test_faults.py` runs the short form.

`test_telemetry_of_faults.py` tests one fault at a time. For this test, `scenes.py` and `ring.py`
make the faults, and `observed.py` observes a session. docs/reliability.md has a table that says how
each fault appears in logs, metrics and spans, and `documented.py` parses this table.
"""
