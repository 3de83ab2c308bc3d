"""Reading groups from ``__consumer_offsets`` itself, without their coordinator.

``records`` decodes its records, ``backwards`` reads them from the end, ``last_generation`` finds a group's generation,
``activity`` finds who commits to an Empty group.
"""
