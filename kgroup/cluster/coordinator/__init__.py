"""The group coordinator's APIs through kafka-python.

Private names of kafka-python are used only here and in ``kgroup.cluster.login``. ``PRIVATE_NAMES`` in ``client`` lists
them, and a test checks the list against the pinned version.
"""
