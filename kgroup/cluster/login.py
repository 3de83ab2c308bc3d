"""Login through kafka-python: its SASL mechanisms, and token providers of the class that it requires."""

from __future__ import annotations

from typing import Any

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider

from kgroup.settings.clients import kafka_python_config
from kgroup.settings.model import Settings

_TOKEN_PROVIDER = "sasl_oauth_token_provider"


def client_arguments(settings: Settings) -> dict[str, Any]:
    """The settings as kafka-python's arguments. Token providers are registered as its own abstract class."""
    arguments = kafka_python_config(settings)
    if _TOKEN_PROVIDER in arguments:
        AbstractTokenProvider.register(type(arguments[_TOKEN_PROVIDER]))
    return arguments


def exchange(settings: Settings, mechanism: str, host: str) -> Any:
    """A login with this mechanism, to be driven step by step: auth_bytes(), receive(answer), is_done()."""
    return get_sasl_mechanism(mechanism)(host=host, **client_arguments(settings))
