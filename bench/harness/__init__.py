"""How anything is measured: environments, processes, turns, times, samples. Names no driver."""
