"""A real Apache Kafka on loopback, for trying things out and for tests.

``Sandbox(directory).up(reporter=reporter).bootstrap_servers`` is what most callers need; ``down`` ends it.
"""

from kgroup.sandbox.cluster import Sandbox
from kgroup.sandbox.status import BrokerStatus, ProcessState, SandboxStatus

__all__ = ["BrokerStatus", "ProcessState", "Sandbox", "SandboxStatus"]
