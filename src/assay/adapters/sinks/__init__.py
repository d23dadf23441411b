"""Where events go besides Kafka: a webhook, a file of lines."""
