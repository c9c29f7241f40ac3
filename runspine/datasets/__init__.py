"""Datasets for offline learning: Minari's files, a manifest with their checksums, one archive in S3.

Imports nothing heavy: reading data needs h5py and numpy, writing it minari.
"""

from runspine.datasets.bad import BadDataset
from runspine.datasets.manifest import DataFile, Manifest, Returns

# The kind of its artifact.
DATASET = "dataset"

__all__ = ["DATASET", "BadDataset", "DataFile", "Manifest", "Returns"]
