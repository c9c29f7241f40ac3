"""Servers that tests start: NATS (one or three), S3, a Kubernetes API, Ray, Docker, a failing disk."""
