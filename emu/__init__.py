"""emu: an emulator of the Linux host packet path: where does each packet land, and why?"""

from emu import stages
from emu.coalesce import gro
from emu.errors import CaptureError, ConfigError, CoreNotBuilt, EmuError
from emu.explain import explain
from emu.intake import dissect, from_frames
from emu.io.capture import read_capture
from emu.io.frames import frames_of, write_pcap
from emu.io.hosts import dump_host, load_host
from emu.model.connections import connections
from emu.model.generate import generate
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Cpumap, Gro, Nic, Rss
from emu.model.packets import Packets
from emu.model.polls import Polls
from emu.model.secrets import Secrets
from emu.model.sockets import Cbpf, Socket, Sockmap
from emu.model.topology import Topology
from emu.run import steer

__all__ = [
    "CaptureError",
    "Cbpf",
    "ConfigError",
    "CoreNotBuilt",
    "CpuSet",
    "Cpumap",
    "EmuError",
    "Gro",
    "Host",
    "Nic",
    "Packets",
    "Polls",
    "Rss",
    "Secrets",
    "Socket",
    "Sockmap",
    "Topology",
    "connections",
    "dissect",
    "dump_host",
    "explain",
    "frames_of",
    "from_frames",
    "generate",
    "gro",
    "load_host",
    "read_capture",
    "stages",
    "steer",
    "write_pcap",
]
