"""Everything that talks to Kafka. The only package that imports a Kafka client.

kafka-python's packages import every client and build every message, of which kgroup uses a few: a third of the time
that kafka-python takes to import. confluent-kafka's imports asyncio and serializers: two thirds of its time.
"""

from kgroup.support import package_fronts

_OF_LIBRDKAFKA = (
    *("Consumer", "KafkaError", "KafkaException", "Message", "Producer", "TopicPartition"),
    "TIMESTAMP_NOT_AVAILABLE",
)

package_fronts.defer(
    {
        "kafka": {},
        "kafka.net": {},
        # kafka.protocol.broker_version_data asks the package for it, which would build every message.
        "kafka.protocol.admin": {"ListGroupsRequest": "groups"},
        "confluent_kafka": dict.fromkeys(_OF_LIBRDKAFKA, "cimpl"),
    }
)
