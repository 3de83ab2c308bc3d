"""A real Apache Kafka on loopback, for experiments and for tests.

``Sandbox(directory).up(reporter=reporter).bootstrap_servers`` is what most callers need; ``down`` stops it.
"""

from kgroup.sandbox.cluster import BrokerStatus, ProcessState, Sandbox, SandboxStatus

__all__ = ["BrokerStatus", "ProcessState", "Sandbox", "SandboxStatus"]
