"""Things to try a job on: hosts, a Slurm cluster, a store, faults."""
