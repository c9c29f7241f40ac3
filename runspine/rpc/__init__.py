"""gRPC: the clients of the services, and the server, errors, tokens and TLS that the services share."""
