"""Tests against a broker: the embedded one, or with ASSAY_TEST_BROKER=apache an Apache Kafka server."""
