"""The Launcher port and its adapters for Kubernetes and Ray."""
