#!/bin/bash
# Tests a program on several kinds of machines in User-Mode Linux, and prints the table of docs/machines.md.
#   machines.sh KERNEL [PROGRAM]                        KERNEL: a UML kernel; PROGRAM: target/debug/longfat unless given
#   ROWS="plain user" machines.sh KERNEL                only these rows
#   LIST=1 machines.sh KERNEL                           the output of each row's commands instead of the table
# It needs neither root nor KVM. The guest sees this machine's root file system, read-only. Each row is one boot of a few
# seconds. A busy machine makes the guest slow, so the table omits the lines of `lab check` for timer, processors and tools.
set -u
KERNEL=$(realpath "$1") PROGRAM=$(realpath "${2:-target/debug/longfat}")
WORK=$(mktemp -d /var/tmp/longfat-machines.XXXXXX)
trap 'rm -rf "$WORK"' EXIT
chmod 755 "$WORK"

# A container as created by Docker: Docker's capabilities and seccomp filter, its own mount and PID namespaces, /proc/sys and
# /sys read-only, only the ordinary devices, a small /dev/shm or none, at most 40 processes. Flags add capabilities and /dev/net/tun.
CONTAINER=$(cat <<'C'
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
flags, caps, program = set(sys.argv[1].split(",")), {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}, sys.argv[2:]
def check(result):
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
NEWNS, NEWPID, REC_PRIVATE, BIND, REMOUNT, RDONLY = 0x20000, 0x20000000, 0x44000, 0x1000, 0x20, 1
check(libc.unshare(NEWNS | (0 if "no-pid" in flags else NEWPID)))
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
check(libc.mount(None, b"/", None, REC_PRIVATE, None))
check(libc.mount(b"proc", b"/proc", b"proc", 0, None))
for path in (b"/proc/sys", b"/sys"):
    check(libc.mount(path, path, None, BIND, None))
    check(libc.mount(None, path, None, BIND | REMOUNT | RDONLY, None))
os.umask(0)
device = lambda name, minor: os.path.exists(name) or os.mknod(name, 0o20666, os.makedev(1, minor))
kept = os.open("/dev/net/tun", os.O_PATH)
check(libc.mount(b"tmpfs", b"/dev", b"tmpfs", 0, None))
for name, minor in (("/dev/null", 3), ("/dev/zero", 5), ("/dev/random", 8), ("/dev/urandom", 9)): device(name, minor)
if "tun" in flags:
    os.mkdir("/dev/net"); os.mknod("/dev/net/tun", 0o20666, os.makedev(10, 200))
if "admin" in flags: caps |= {12, 21, 23}
for cap in range(64):
    if cap not in caps: libc.prctl(24, cap, 0, 0, 0)
mask = sum(1 << cap for cap in caps)
header = struct.pack("II", 0x20080522, 0)
check(libc.capset(header, struct.pack("IIIIII", mask & 0xffffffff, mask & 0xffffffff, mask & 0xffffffff, mask >> 32, mask >> 32, mask >> 32)))
import resource
resource.setrlimit(resource.RLIMIT_NPROC, (40, 40))
if "seccomp" in flags:
    # EPERM for unshare(2), setns(2) and clone(2) with flags of namespaces, ENOSYS for clone3(2), EPERM for bpf(2), as in Docker's profile.
    ld, jeq, jset, ret = 0x20, 0x15, 0x45, 0x06
    code = [(ld, 0, 0, 0), (jeq, 6, 0, 272), (jeq, 5, 0, 308), (jeq, 4, 0, 321), (jeq, 4, 0, 435),
            (jeq, 0, 4, 56), (ld, 0, 0, 16), (jset, 0, 2, 0x7e020000), (ret, 0, 0, 0x50001), (ret, 0, 0, 0x50026), (ret, 0, 0, 0x7fff0000)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    class Program(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("text", ctypes.c_void_p)]
    filter = Program(len(code), ctypes.addressof(text))
    check(libc.prctl(38, 1, 0, 0, 0)); check(libc.prctl(22, 2, ctypes.byref(filter), 0, 0))
os.execvp(program[0], program)
C
)
# A row: its name, a description of the machine, kernel options, shell commands that prepare the machine, and the command
# that starts each program (as a user, in a container).
row() {
    local name=$1 what=$2 options=$3 prepare=$4 as=$5
    if [ -n "${ROWS:-}" ]; then case " $ROWS " in *" $name "*) ;; *) return ;; esac; fi
    boot "$options" "$prepare" "$as"
    if [ -n "${LIST:-}" ]; then echo "== $name: $what"; cat "$WORK/mnt/said" 2>/dev/null; return; fi
    tail -n 1 "$WORK/mnt/row" 2>/dev/null | sed "s~^~| $what ~"
}

boot() {
    rm -rf "$WORK/mnt"; mkdir -m 777 "$WORK/mnt"; ln "$PROGRAM" "$WORK/mnt/longfat" 2>/dev/null || cp "$PROGRAM" "$WORK/mnt/longfat"
    cat > "$WORK/mnt/scenario.toml" <<'T'
title = "Two hosts, 10 Mb/s"
duration = "2s"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = { rate = "10mbit", delay = "5ms", queue = "64kB" }
backward = { rate = "10mbit", delay = "5ms", queue = "64kB" }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
T
    cat > "$WORK/init" <<I
#!/bin/bash
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/shm /dev/pts /dev/net
for d in /tmp /run /dev/shm; do mount -t tmpfs -o mode=1777 tmpfs \$d; done
mount -t hostfs -o $WORK/mnt none /mnt; [ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
chmod 666 /dev/net/tun; ip link set lo up
bash /mnt/prepare > /mnt/prepared 2>&1
cp /mnt/try /tmp/try; cd /tmp
$3 bash /tmp/try > /tmp/row 2> /mnt/errors; cp /tmp/row /mnt/row; sync
python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)'
I
    chmod 755 "$WORK/init"; printf '%s\n' "$2" > "$WORK/mnt/prepare"
    if [ -n "$3" ]; then printf '%s\n' "$CONTAINER" > "$WORK/mnt/container"; fi
    cat > "$WORK/mnt/try" <<'T'
# One cell for each command: "runs", or the exit code and the last line of the message.
mkdir -p /tmp/mine && cd /tmp/mine || exit
exec 3>> /tmp/mine/said
attempt() {
    local said code
    said=$(timeout 60 "$@" 2>&1); code=$?
    printf '$ %s\n%s\nexit %s\n' "$*" "$said" "$code" >&3
    if [ $code = 0 ]; then cell="runs"; else cell="exit $code: $(sed "s/^longfat: //" <<< "$said" | grep -v '^ *->\|^Labs\|^ok\|^limited' | grep . | tail -n 1 | tr '|' '/' | cut -c1-300)"; fi
}
L=/mnt/longfat
attempt $L lab check
if [ "$cell" = runs ]; then cell="can run"; else cell="cannot run"; fi
not_ok=$($L lab check --json 2>/dev/null | python3 -c '
import json, sys
items = json.load(sys.stdin)["items"]
quiet = ("timer", "tools", "processors", "idle processors")
for state in ("limited", "missing"):
    names = [i["name"] for i in items if i["state"] == state and i["name"] not in quiet and not i["found"].startswith("not tried")]
    if names: print("; " + state + ": " + ", ".join(names), end="")' 2>/dev/null)
row="| $cell$not_ok "
attempt $L run /mnt/scenario.toml; row="$row| $cell "
up() { $L lab up /mnt/scenario.toml --name m && $L lab exec --lab m h1 -- true && $L lab down m; }
export -f up; export L
run=$cell
attempt bash -c up; [ "$cell" = runs ] || [ "$cell" != "$run" ] || cell="the same"
row="$row| $cell "
attempt $L run /mnt/scenario.toml --engine sim; row="$row| $cell "
both() {
    $L serve -1 -p 5999 > serve.out 2>&1 & server=$!
    for i in 1 2 3 4 5 6 7 8 9 10; do
        $L test 127.0.0.1 -p 5999 -t 1 -b 10M > test.out 2>&1; code=$?
        [ $code = 0 ] && break; sleep 0.3
    done
    cat serve.out test.out; kill $server 2>/dev/null; wait $server; return $code
}
export -f both
attempt bash -c both; row="$row| $cell "
attempt $L watch --once; row="$row| $cell "
attempt $L cc list; row="$row| $cell "
attempt $L lab clean
case $cell in runs) ;; *) row="$row; lab clean $cell " ;; esac
cp /tmp/mine/said /mnt/said 2>/dev/null
echo "$row|"
T
    # shellcheck disable=SC2086
    TMPDIR=/dev/shm timeout "${T:-240}" setsid "$KERNEL" mem="${MEM:-1G}" root=/dev/root rootfstype=hostfs rootflags=/ ro \
        init="$WORK/init" con=null con0=null,fd:1 quiet uml_dir="$WORK/u" $1 < /dev/null > "$WORK/console" 2>&1
}

USER='setpriv --reuid 65534 --regid 65534 --clear-groups'
DOCKER='python3 /mnt/container'

echo '| machine | `lab check` | `run` | `lab up` | `--engine sim` | `serve`, `test` | `watch` | `cc list` |'
echo '|---|---|---|---|---|---|---|---|'
row plain 'root' '' '' ''
row user 'an ordinary user' '' '' "$USER"
row no-tun 'root, no /dev/net/tun' '' 'rm /dev/net/tun' ''
row dead-tun 'root, a kernel without TUN behind /dev/net/tun' '' 'rm /dev/net/tun; mknod -m 666 /dev/net/tun c 10 250' ''
row user-no-tun 'user, /dev/net/tun for root only' '' 'chmod 600 /dev/net/tun' "$USER"
row no-ipv6 'root, `ipv6.disable=1`' 'ipv6.disable=1' '' ''
row ipv6-off 'root, `net.ipv6.conf.all.disable_ipv6=1`' '' 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6' ''
row no-userns 'user, `user.max_user_namespaces=0`' '' 'echo 0 > /proc/sys/user/max_user_namespaces' "$USER"
row no-netns-root 'root, `user.max_net_namespaces=0`' '' 'echo 0 > /proc/sys/user/max_net_namespaces' ''
row no-netns 'user, `user.max_net_namespaces=0`' '' 'echo 0 > /proc/sys/user/max_net_namespaces' "$USER"
row no-pidns 'root, `user.max_pid_namespaces=0`' '' 'echo 0 > /proc/sys/user/max_pid_namespaces' ''
row hardened 'user, `kptr_restrict=2`, `unprivileged_bpf_disabled=2`, `perf_event_paranoid=3`, `dmesg_restrict=1`' '' 'cd /proc/sys/kernel; echo 2 > kptr_restrict; echo 2 > unprivileged_bpf_disabled; echo 3 > perf_event_paranoid; echo 1 > dmesg_restrict' "$USER"
row docker 'container as Docker makes it' '' '' "$DOCKER seccomp"
row docker-unconfined 'the same, `seccomp=unconfined`' '' '' "$DOCKER -"
row docker-admin '`--cap-add SYS_ADMIN --cap-add NET_ADMIN --device /dev/net/tun`, `seccomp=unconfined`' '' '' "$DOCKER admin,tun"
row docker-user 'container, ordinary user, `seccomp=unconfined`' '' '' "$DOCKER - $USER"
row read-only 'root, /proc/sys and /sys read-only' '' 'for d in /proc/sys /sys; do mount --bind $d $d; mount -o remount,bind,ro $d; done' ''
row no-shm 'root, no /dev/shm' '' 'umount /dev/shm' ''
