"""The telemetry service: archives batches and answers queries."""
