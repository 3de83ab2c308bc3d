"""Reading groups from ``__consumer_offsets`` itself, without their coordinator.

``decode`` decodes its ``records`` and ``scan`` reads them from the end, for visitors of each group: ``generations``
finds generations of classic groups, ``group_past`` their last members, ``activity`` the clients that use a group,
``commits`` all commits since a position, ``group_log`` all events, ``last_records`` the state at a moment.
"""
