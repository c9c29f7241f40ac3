"""Adapters of the dashboard: gRPC, NATS, web server, JSON API, child processes, caches."""
