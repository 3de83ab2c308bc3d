"""Reading groups from ``__consumer_offsets`` itself, without their coordinator.

``records`` decodes its records, ``backwards`` reads them from the end, ``scan`` finds generations of classic groups,
``last_generation`` their past members, ``activity`` the clients that commit to Empty groups.
"""
