"""Kafka messages that kafka-python lacks, or has in older versions only, as JSON in the format that it loads.

Source: Apache Kafka 4.4, clients/src/main/resources/common/message (KIP-848; DeleteGroups: version 3 has messages).
"""
