"""Kafka messages that kafka-python lacks, as JSON in the format that kafka-python loads.

Source: Apache Kafka 4.3, clients/src/main/resources/common/message (KIP-848).
"""
