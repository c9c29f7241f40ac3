"""What `runspine bench` runs. Every figure is printed beside a limit measured in the same run."""
