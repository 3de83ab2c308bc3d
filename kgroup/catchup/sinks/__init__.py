"""Where records are delivered: a topic, files, a command, a function. For Spark's workers: needs no kafka-python."""
