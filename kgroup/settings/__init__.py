"""Connection settings: where they come from, what they mean, and the configuration of both clients."""

from kgroup.settings.model import Setting, Settings
from kgroup.settings.sources import resolve

__all__ = ["Setting", "Settings", "resolve"]
