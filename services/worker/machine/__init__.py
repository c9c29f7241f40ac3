"""The worker's machine: its disk, its GPUs, and the directories of runs that it keeps."""
