"""The group coordinator's APIs through kafka-python.

Private names of kafka-python are used in this package and nowhere else; ``PRIVATE_NAMES`` in ``client`` lists
them and a test holds the list against the pinned version.
"""
