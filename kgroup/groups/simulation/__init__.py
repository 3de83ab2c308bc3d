"""Simulates a change of a group: assignments, rebalances, moved partitions, standstills. Nothing is changed.

Assignments are Kafka's own (kgroup.groups.assignors). Which members stop, and how often, was measured on Kafka 4.3.1.
An added member costs an eager group one rebalance, in which all members stop. It costs a cooperative group two
rebalances, and a consumer group one epoch. The restart of a dynamic member costs these groups two, three and two; that
of a static member that is back within its session costs none.
"""
