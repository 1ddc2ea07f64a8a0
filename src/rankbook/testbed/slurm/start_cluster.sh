# The first process of a cluster, in namespaces of its own: makes the hosts, starts Slurm on them.
# start_cluster.sh FOLDER NODE...: ends, and with it every process of the cluster, when its input ends.
set -e
folder=$1; shift
cd "$folder"

hostname login
ip link set lo up
ip link add switch type bridge
ip addr add 10.77.0.100/24 dev switch
ip link set switch up

# Names are known from one file, and there is no server to ask for others. torch looks the addresses
# of its peers up as IPv6 writes them.
printf '127.0.0.1 localhost\n10.77.0.100 login\n' > hosts
for i in $(seq $#); do
  printf '10.77.0.%d %s\n::ffff:10.77.0.%d %s\n' $i ${!i} $i ${!i} >> hosts
done
echo 'hosts: files' > nsswitch.conf
mount --bind hosts /etc/hosts
mount --bind nsswitch.conf /etc/nsswitch.conf

mount -t tmpfs shm /dev/shm  # what a killed job leaves there goes with the cluster

head -c 128 /dev/urandom > munge.key
chmod 600 munge.key
munged --force --key-file munge.key --socket "$folder/munge.socket" --pid-file munge.pid \
  --seed-file munge.seed --log-file "$folder/munge.log"
slurmctld -D > slurmctld.out 2>&1 &
controller=$!

groups=/sys/fs/cgroup/freezer/$(basename "$folder")
i=0
for node in "$@"; do
  i=$((i + 1))
  mkfifo "$node.cable"
  unshare --net --uts --mount bash -ec "
    hostname $node
    if grep -q proctrack/cgroup slurm.conf; then  # each host has groups of its own
      mkdir -p cgroup/freezer $groups/$node
      mount --bind $groups/$node cgroup/freezer
    fi
    ip link set lo up
    echo > $node.cable
    read < $node.cable
    ip addr add 10.77.0.$i/24 dev eth0
    ip link set eth0 up
    exec slurmd -D -N $node" > "slurmd-$node.out" 2>&1 &
  echo $! > "$node.pid"
  read < "$node.cable"
  ip link add "port$i" type veth peer name eth0 netns $!
  ip link set "port$i" master switch up
  echo > "$node.cable"
done

cat <&0 > /dev/null &  # its owner holds the other end
wait -n $! "$controller"
