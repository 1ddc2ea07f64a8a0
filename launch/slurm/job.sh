# What the batch scripts share; they read it with `source`. It is not submitted itself.

fail() { echo "$SLURM_JOB_NAME: $1" >&2; exit 2; }

[ $# -ge 1 ] || fail "no module is named; sbatch launch/slurm/$SLURM_JOB_NAME.sbatch MODULE [options of the program]"
torchrun=$SLURM_SUBMIT_DIR/launch/torchrun.sh
source "$SLURM_SUBMIT_DIR/launch/cluster.env" || exit 2
words=("$@")

mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${hosts[0]}  # this script runs there, too

# What the job has on each host. The steps ask for it in so many words: a total of GPUs (--gpus=16) is
# handed down to a step of one node, which cannot have it, and srun has not read --cpus-per-task since 22.05.
declare -A cpus gpus
unset SLURM_GPUS SLURM_GPUS_PER_TASK SLURM_GPUS_PER_NODE SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE
while read -r names each cards; do
  for host in $(scontrol show hostnames "$names"); do cpus[$host]=$each gpus[$host]=$cards; done
done < <(scontrol --details show job "$SLURM_JOB_ID" | awk -F '[ =]+' '/CPU_IDs=/ {
  n = split($5, parts, ","); total = 0  # as 0-3,8
  for (i = 1; i <= n; i++) { split(parts[i] "-" parts[i], ends, "-"); total += ends[2] - ends[1] + 1 }
  cards = 0; if (match($0, /gpu:([^:(, ]*:)?[0-9]+/)) { cards = substr($0, RSTART, RLENGTH); sub(/.*:/, "", cards) }
  print $3, total, cards }')
# torchrun binds the ranks (LAUNCH_BIND); Slurm shall not have bound their agent to one core before.
! scontrol show config | grep -qE '^TaskPlugin .*(affinity|cgroup)' || export SLURM_CPU_BIND=none

# The words with which srun asks for all that the job has on a host; of one step on all: on each.
share() {
  local host fewest=${cpus[$1]}
  for host in "$@"; do [ "${cpus[$host]:-0}" -ge "${fewest:-0}" ] || fewest=${cpus[$host]}; done
  [ "${fewest:-0}" = 0 ] || echo "--cpus-per-task=$fewest"
  [ $# -gt 1 ] || [ "${gpus[$1]:-0}" = 0 ] || echo "--gpus-per-node=${gpus[$1]}"
}

# What each rank was doing, and how to read it should the job fail.
if [ -n "$SHARED" ]; then
  export RANKBOOK_AUTOPSY=$SHARED/autopsy/$SLURM_JOB_NAME-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}
  trap 'code=$?; [ $code = 0 ] || [ ! -d "$RANKBOOK_AUTOPSY" ] ||
    echo "$SLURM_JOB_NAME: what each rank was doing: python -m rankbook autopsy $RANKBOOK_AUTOPSY"' EXIT
fi

# The newest checkpoint in the folder that the program's own --checkpoint names. What is not whole yet
# has a hidden name, which ls leaves out.
newest() {
  local i
  for i in "${!words[@]}"; do
    case ${words[$i]} in
      --checkpoint) ls -1t "${words[$((i + 1))]}" 2> /dev/null | head -n 1 ;;
      --checkpoint=*) ls -1t "${words[$i]#*=}" 2> /dev/null | head -n 1 ;;
    esac
  done
}

# What is not done goes back into the queue, if it was told to end or if there is a checkpoint that
# was not there before: $1. What fails without getting on would fail again.
again_if_it_got_on() {
  local again=${SLURM_RESTART_COUNT:-0}
  [ "$code" != 0 ] || return
  [ -n "$asked" ] || [ "$(newest)" != "$1" ] || return
  [ "$again" -lt "$LAUNCH_REQUEUES" ] || fail "started again $again times and not done yet; LAUNCH_REQUEUES allows no more"
  echo "$SLURM_JOB_NAME: not done; to be started again"
  scontrol requeue "$SLURM_JOB_ID" || fail "Slurm does not start it again; is JobRequeue=0 there?"
  sleep 60  # Slurm ends this script now
}
