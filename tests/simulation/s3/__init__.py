"""A model of an S3 server, and the contract that holds it to the real one."""
