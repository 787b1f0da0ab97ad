"""emu: an emulator of the Linux host packet path: where does each packet land, and why?"""

from emu import stages
from emu.ask.calibrate import calibrate
from emu.ask.fit import Fit
from emu.coalesce import gro
from emu.errors import CaptureError, ConfigError, CoreNotBuilt, EmuError
from emu.explain import explain
from emu.intake import dissect, from_frames
from emu.io.capture import read_capture
from emu.io.frames import frames_of, write_pcap
from emu.io.hosts import dump_host, load_host
from emu.io.machines import load_machine
from emu.io.scenarios import load_scenario
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
from emu.model.workloads import OpenLoop, RequestResponse
from emu.result.run import RunResult
from emu.steering import steer
from emu.timing import run

__all__ = [
    "CaptureError",
    "Cbpf",
    "ConfigError",
    "CoreNotBuilt",
    "CpuSet",
    "Cpumap",
    "EmuError",
    "Fit",
    "Gro",
    "Host",
    "Nic",
    "OpenLoop",
    "Packets",
    "Polls",
    "RequestResponse",
    "Rss",
    "RunResult",
    "Secrets",
    "Socket",
    "Sockmap",
    "Topology",
    "calibrate",
    "connections",
    "dissect",
    "dump_host",
    "explain",
    "frames_of",
    "from_frames",
    "generate",
    "gro",
    "load_host",
    "load_machine",
    "load_scenario",
    "read_capture",
    "run",
    "stages",
    "steer",
    "write_pcap",
]
