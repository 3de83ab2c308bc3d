"""The group coordinator's APIs through kafka-python.

Only this package uses private names of kafka-python. ``PRIVATE_NAMES`` in ``client`` lists them, and a test checks
the list against the pinned version.
"""
