"""Kafka of other versions: every verb on each, compared with that version's own tool."""

import pytest

pytest.register_assert_rewrite("tests.versions.smoke", "tests.versions.shares")
