"""The launcher: gives each waiting run of its pools a worker of its own, on Kubernetes, Ray or Slurm."""
