"""The audit under faults: a load on three nodes, faults in between, and a check of every call.

`load.py` runs the calls in a process of its own and records each. `proxy.py` is a proxy before each
node. `faults.py` injects faults from a seed. `state.py` reads what the nodes have stored, without
the driver. `audit.py` compares the records with it. `run.py` does all of it; `soak.py` is the long
form (`make soak`), `test_faults.py` the short one.
"""
