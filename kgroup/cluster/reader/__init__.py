"""Reading ranges of topics through confluent-kafka, with evidence that nothing was missed."""
