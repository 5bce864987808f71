"""Hosts made of Linux network namespaces: each has its own name, address and network device, and a switch connects them. What runs on
different hosts shares the file system and the process numbers, and nothing else of the network. Needs root, or the right of users to create
namespaces; they end with this process, however it ends."""
import os
import re
import subprocess
import sys


def enter():
    """Returns as root. A user who is not restarts the same script as root of a user namespace of its own."""
    if os.geteuid() != 0:
        os.execvp("unshare", ["unshare", "--user", "--map-root-user", sys.executable, *sys.argv])


class Hosts:
    """`count` hosts, number k with the name host<k> and the address address(k)."""

    def __init__(self, count):
        self.holders = []
        try:
            switch = self._hold("switch")
            self._in(switch, "ip link add name bridge type bridge && ip link set bridge up")
            for k in range(count):
                host = self._hold(f"host{k}")
                # Without link-local IPv6 addresses, no device sends anything by itself.
                self._in(switch, f"ip link add name port{k} type veth peer name eth0 netns {host} && "
                                 f"ip link set port{k} addrgenmode none master bridge up")
                self._in(host, f"ip link set lo up && ip link set eth0 addrgenmode none up && ip address add {self.address(k)}/24 dev eth0")
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for holder in self.holders:
            holder.stdin.close()
            holder.wait()
        self.holders = []

    def _hold(self, name):
        """A process that keeps a new network until its input ends, as it also does when this process dies. Returns its number."""
        holder = subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c", f"hostname {name} && echo ready && exec cat"], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.holders.append(holder)
        if holder.stdout.readline() != "ready\n":
            raise RuntimeError("no network namespace could be made: run as root, or allow users to create namespaces")
        holder.stdout.close()
        return holder.pid

    def _in(self, pid, script):
        subprocess.run(["nsenter", f"--target={pid}", "--net", "--uts", "sh", "-c", script], check=True)

    @staticmethod
    def address(k):
        return f"10.77.0.{k + 1}"

    def on(self, k, command):
        """`command`, to be run on host k."""
        return ["nsenter", f"--target={self.holders[k + 1].pid}", "--net", "--uts", "--", *command]

    def _read(self, k, path):
        return subprocess.run(self.on(k, ["cat", path]), check=True, capture_output=True, text=True).stdout

    def sent_bytes(self, k, device="eth0"):
        """What host k has sent so far to its link to the switch, or over its loopback device ("lo"), with all headers of Ethernet, IP and
        TCP."""
        fields = re.search(rf"{device}:(.*)", self._read(k, "/proc/net/dev"))[1].split()
        return int(fields[8])

    def listening(self, k):
        """[(address, port)] of the TCP sockets that listen on host k."""
        found = []
        for path, is_ipv4 in (("/proc/net/tcp", True), ("/proc/net/tcp6", False)):
            for line in self._read(k, path).splitlines()[1:]:
                local, state = line.split()[1], line.split()[3]
                if state != "0A":
                    continue
                address, port = local.split(":")
                text = ".".join(str(byte) for byte in reversed(bytes.fromhex(address))) if is_ipv4 else f"IPv6 {address}"
                found.append((text, int(port, 16)))
        return sorted(found)
