"""The audit under faults: loads three nodes, injects faults and checks every call.

`load.py` runs the calls in its own process and records each. `proxy.py` runs a proxy before each
node. `faults.py` injects faults from a seed. `state.py` reads what the nodes have stored, without
the driver. `audit.py` compares the records with the stored rows. `run.py` runs all of these.
`soak.py` is the long form (`make soak`), `test_faults.py` the short one.
"""
