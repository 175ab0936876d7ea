from mooring.metadata.kafka.opening import open_kafka_store
from mooring.metadata.kafka.store import KafkaMetadataStore

__all__ = ["KafkaMetadataStore", "open_kafka_store"]
