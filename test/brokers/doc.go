// Package brokers tests the overlays for RabbitMQ and Kafka, and the Triggers, with the code of these Brokers: their types, defaults,
// webhooks, controllers and dispatcher.
package brokers
