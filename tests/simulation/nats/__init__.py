"""A model of nats-server, and the contract that holds it to the real one."""
