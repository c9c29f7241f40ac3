"""Object storage: adapters of S3, keys of objects, and the rights of each service in the bucket."""
