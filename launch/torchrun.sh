#!/bin/bash
# One agent of torchrun on this host. By hand: the same words on each of the hosts. Under Slurm:
# srun says them, once a node.
#
#   launch/torchrun.sh HEAD_HOST NNODES MODULE [options of the program]
#
# HEAD_HOST: one of the hosts, by the name or address that all of them know; they meet there.
# NNODES: how many hosts, or MIN:MAX. LAUNCH_RESTARTS: failures to survive (0).

# A task whose end ends the others has a second for its words: srun may drop the last ones.
fail() { echo "torchrun.sh on $(hostname): $1" >&2; [ -z "$SLURM_JOB_ID" ] || sleep 1; exit 2; }

here=$(dirname "$(realpath "$0")")
source "$here/cluster.env" || fail "cluster.env is not beside torchrun.sh, or its LAUNCH_VENV cannot be activated"

[ $# -ge 3 ] || fail "say HEAD_HOST NNODES MODULE, then the options of the program; $# words are too few"
head=$1 nnodes=$2 module=$3
shift 3
[[ $nnodes =~ ^[1-9][0-9]*(:[1-9][0-9]*)?$ ]] || fail "NNODES is a number, or MIN:MAX, not $nnodes"
[ -z "$SHARED" ] || [ -w "$SHARED" ] || fail "the shared folder $SHARED is not there, or not writable; see SHARED in cluster.env"
[[ $LAUNCH_PORT =~ ^[0-9]+$ ]] || fail "LAUNCH_PORT is a number, not $LAUNCH_PORT; see cluster.env"
port=$((LAUNCH_PORT + ${SLURM_JOB_ID:-0} % 1000))
found=$(python "$here/look.py" "$head" "$port" "$module" $LAUNCH_INTERFACE 2>&1) || fail "$found"
read -r is_host address <<< "$found"

ranks=${LAUNCH_RANKS:-${SLURM_GPUS_ON_NODE:-$(nvidia-smi -L 2> /dev/null | grep -c ^GPU)}}
[ "$ranks" != 0 ] || ranks=1
# A start of a job that is left over must not meet the next one.
meeting=${SLURM_JOB_ID:-by-hand}-${SLURM_RESTART_COUNT:-0}
# What each rank was doing, for `rankbook autopsy`, should the job hang or fail.
[ -z "$SHARED" ] || export RANKBOOK_AUTOPSY=${RANKBOOK_AUTOPSY:-$SHARED/autopsy/$meeting}

# exec: the agent is the process that Slurm signals, with nothing in between.
exec python -m torch.distributed.run \
  --nnodes "$nnodes" --nproc-per-node "$ranks" --max-restarts "${LAUNCH_RESTARTS:-0}" \
  --rdzv-backend c10d --rdzv-endpoint "$head:$port" --rdzv-id "$meeting" \
  --rdzv-conf "$LAUNCH_RDZV,$is_host" ${address:+--local-addr "$address"} \
  ${LAUNCH_BIND:+--numa-binding "$LAUNCH_BIND"} -m "$module" "$@"
