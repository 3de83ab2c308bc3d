"""``__consumer_offsets`` as a source: what its records say (``records``), reading them from the end (``backwards``),
for a group's generation (``read``) and for who commits to it while it is Empty (``activity``)."""
