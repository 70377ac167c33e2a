"""The audit under faults loads three nodes, injects faults and checks every call.

`load.py` makes the calls in its own process and records each call. `proxy.py` runs a proxy before
each node. `faults.py` injects faults from a seed. `state.py` reads what the nodes have stored,
without the driver. `audit.py` compares the records with the stored rows. `run.py` uses all these
modules. `soak.py` runs the long form (`make soak`), and `test_faults.py` runs the short form.

`test_seen.py` has each fault alone: `scenes.py` and `ring.py` make the faults, `observed.py`
observes a session, and `documented.py` reads in docs/reliability.md what is seen of each.
"""
