"""Where records go: a topic, files, a command, a Python function. For Spark's workers: no kafka-python is needed."""
