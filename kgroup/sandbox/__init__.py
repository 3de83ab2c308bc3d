"""A real Apache Kafka on loopback, for experiments and for tests.

``Sandbox(directory).up(reporter=reporter).bootstrap_servers`` is what most callers need; ``down`` stops it.
"""

from kgroup.model.sandbox_status import BrokerStatus, ProcessState, SandboxStatus
from kgroup.sandbox.cluster import Sandbox

__all__ = ["BrokerStatus", "ProcessState", "Sandbox", "SandboxStatus"]
