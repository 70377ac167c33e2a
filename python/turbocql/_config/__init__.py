"""Settings from text, URLs, the environment and files; contact points."""
