"""``__consumer_offsets`` as a source: what its records say (``records``), and reading them (``read``)."""
