"""What every service process shares: logging, health, metrics, and the setup of S3."""
