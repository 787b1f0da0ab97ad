"""Which CPUs are online as ops change that, and what keeps one from going offline.

The kernel would move interrupts, kthreads and threads of a CPU that goes, to a CPU that no file
names: the model wants to be told.
"""

from __future__ import annotations

from emu.errors import ConfigError
from emu.model.host import Host
from emu.model.masks import CpuSet


class CpusInUse:
    """The CPUs of a host that are online, and who runs where."""

    def __init__(self, host: Host) -> None:
        self.online = [bool(up) for up in host.topology.online]
        self.threads = {socket.name: socket.threads for socket in host.sockets}
        self.fixed: dict[int, str] = {}
        for nic in host.nics:
            for side, cpus in (("rx", nic.irq_cpus), ("tx", nic.tx_irq_cpus)):
                for queue, cpu in enumerate(cpus):
                    self.fixed.setdefault(cpu, f"the interrupt of {nic.name} {side} queue {queue}")
            for cpu in nic.cpumap.cpus.cpus if nic.cpumap else ():
                self.fixed.setdefault(cpu, f"a cpumap kthread of {nic.name}")
        for socket in host.sockets:
            if socket.sockmap is not None and socket.sockmap.cpu is not None:
                self.fixed.setdefault(socket.sockmap.cpu, f"the sockmap worker of {socket.name}")

    def set_online(self, where: str, cpu: int, online: bool) -> None:
        """A CPU comes or goes.

        Raises:
            ConfigError: it is needed, or the last one.
        """
        if not online:
            user = self.fixed.get(cpu)
            if user is not None:
                allowed = "a CPU that nothing is bound to"
                raise ConfigError(where, f"CPU {cpu}, which has {user}", allowed)
            for name, threads in self.threads.items():
                if threads.bits >> cpu & 1:
                    allowed = "a CPU without threads"
                    fix = f"MoveThreads of {name} before"
                    raise ConfigError(
                        where, f"CPU {cpu}, which has threads of {name}", allowed, fix
                    )
            if sum(self.online) - self.online[cpu] < 1:
                raise ConfigError(where, f"CPU {cpu}, the last online", "another CPU online")
        self.online[cpu] = online

    def move(self, where: str, socket: str, threads: CpuSet) -> None:
        """A socket's threads move.

        Raises:
            ConfigError: onto a CPU that is offline.
        """
        if not all(self.online[cpu] for cpu in threads.cpus):
            up = CpuSet([cpu for cpu, online in enumerate(self.online) if online])
            raise ConfigError(where, f"threads={threads.list()}", f"CPUs online: {up.list()}")
        self.threads[socket] = threads
