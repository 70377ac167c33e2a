"""The audit under faults runs a workload on three nodes, injects faults and checks every call.

`load.py` runs the workload, "the load": it makes calls of turbocql in its own process and records
each call. `proxy.py` runs a proxy before each node. `faults.py` injects faults from a seed.
`state.py` reads what the nodes have stored, without a session of turbocql. `audit.py` compares the
records with the stored rows. `run.py` uses all these modules. `soak.py` runs the long form
(`make soak`), and `test_faults.py` runs the short form.

`test_seen.py` has each fault alone: `scenes.py` and `ring.py` make the faults, `observed.py`
observes a session, and `documented.py` parses the table in docs/reliability.md that says how each
fault is seen.
"""
