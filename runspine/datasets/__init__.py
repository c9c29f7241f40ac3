"""Datasets for offline learning: Minari's files, a manifest with their checksums, one archive in S3.

Imports nothing heavy: reading data needs h5py and numpy, writing it minari.
"""

from runspine.datasets.errors import DatasetError
from runspine.datasets.manifest import DataFile, Manifest, Returns

# Folder in a run's directory that holds the dataset for the trainer.
RUN_FOLDER = "dataset"

__all__ = ["DataFile", "DatasetError", "Manifest", "Returns"]
