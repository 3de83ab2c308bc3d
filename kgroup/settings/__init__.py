"""Connection settings: their sources, their meaning, and the configuration of both Kafka clients."""
