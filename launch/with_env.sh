#!/bin/bash
# A command in the environment that the ranks will have:
#   srun --nodes=2 --ntasks-per-node=1 launch/with_env.sh python -m rankbook doctor --checkpoints FOLDER
source "$(dirname "$(realpath "$0")")/cluster.env" || exit 2
exec "$@"
