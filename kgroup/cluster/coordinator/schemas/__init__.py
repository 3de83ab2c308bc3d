"""Messages that kafka-python lacks, as field facts in the form that it loads.

Source: Apache Kafka 4.3, clients/src/main/resources/common/message (KIP-848).
"""
