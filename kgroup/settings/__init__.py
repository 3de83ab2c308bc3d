"""Connection settings: where they come from, what they mean, and the configuration of both clients."""
