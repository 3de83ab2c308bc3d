"""Machine-readable formats: the JSON envelope, markdown, Prometheus."""
