"""Everything that talks to Kafka. The only package that imports a Kafka client."""
