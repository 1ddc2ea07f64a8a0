#!/bin/bash
# Around a container runtime that does not hand SIGTERM on to the agent inside of it:
#   LAUNCH_SRUN="launch/forward.sh bwrap --dev-bind / /" sbatch ...
# Slurm signals the first process of a task, and nothing else where proctrack/cgroup tracks them
# (elsewhere its whole group: hence setsid). bubblewrap would end of it, and the agent not know.
setsid "$@" &
runtime=$!

below() { local each; for each in $(pgrep -P "$1"); do echo "$each"; below "$each"; done; }

pass() {
  local each
  for each in $(below $runtime); do
    if tr '\0' ' ' < "/proc/$each/cmdline" | grep -q 'python.* -m torch.distributed.run'; then kill -TERM "$each"; fi
  done
}
trap pass TERM

wait $runtime
code=$?
while kill -0 $runtime 2> /dev/null; do  # a signal ends the wait, and not the runtime
  wait $runtime
  code=$?
done
exit $code
