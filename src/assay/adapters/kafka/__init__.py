"""Kafka: a topic as a source, and as a place for events."""
