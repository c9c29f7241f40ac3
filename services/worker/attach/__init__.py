"""What people ask about running trainers: stacks of their processes, and a shell next to them."""
