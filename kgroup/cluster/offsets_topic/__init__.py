"""Reading groups from ``__consumer_offsets`` itself, without their coordinator.

``records`` decodes its records, ``scan`` reads them from the end, ``generations`` finds generations of classic groups,
``last_generation`` their past members, ``activity`` the clients that commit to Empty groups.
"""
