"""The election among clients of one topic in Kafka."""

from mooring.coordination.kafka.leader import KafkaLeaderLock

__all__ = ["KafkaLeaderLock"]
