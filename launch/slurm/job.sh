# What the batch scripts share; they read it with `source`. It is not submitted itself.

fail() { echo "$SLURM_JOB_NAME: $1" >&2; exit 2; }

[ $# -ge 1 ] || fail "no module is named; sbatch launch/slurm/$SLURM_JOB_NAME.sbatch MODULE [options of the program]"
torchrun=$SLURM_SUBMIT_DIR/launch/torchrun.sh
source "$SLURM_SUBMIT_DIR/launch/cluster.env"

mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${hosts[0]}  # this script runs there, too

# What each rank was doing, and how to read it should the job fail.
if [ -n "$SHARED" ]; then
  export RANKBOOK_AUTOPSY=$SHARED/autopsy/$SLURM_JOB_NAME-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}
  trap 'code=$?; [ $code = 0 ] || [ ! -d "$RANKBOOK_AUTOPSY" ] ||
    echo "$SLURM_JOB_NAME: what each rank was doing: python -m rankbook autopsy $RANKBOOK_AUTOPSY"' EXIT
fi

# Have Slurm start this job once more, as it was submitted; never from here on.
requeue() {
  local again=${SLURM_RESTART_COUNT:-0}
  [ "$again" -lt "$LAUNCH_REQUEUES" ] || fail "started again $again times and not done yet; LAUNCH_REQUEUES allows no more"
  echo "$SLURM_JOB_NAME: not done; to be started again"
  scontrol requeue "$SLURM_JOB_ID" || fail "Slurm does not start it again; is JobRequeue=0 there?"
  sleep 60  # Slurm ends this script now
}
