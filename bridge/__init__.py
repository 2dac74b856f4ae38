"""The bridge between the MQTT broker and Kafka: nothing acknowledged before Kafka has it."""
