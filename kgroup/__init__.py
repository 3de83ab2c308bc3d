"""kgroup: see, move, repair and catch up Kafka consumer groups from the command line."""

__version__ = "0.2.0.dev0"
