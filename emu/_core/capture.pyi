import numpy as np
from numpy.typing import NDArray

from emu.model.capture import PcapngScan, PcapScan

def scan_pcap(
    data: NDArray[np.uint8],
    at: int,
    big_endian: bool,
    frac_ns: int,
    header_bytes: int,
    max_cap_bytes: int,
    limit: int,
) -> PcapScan: ...
def scan_pcapng(data: NDArray[np.uint8], limit: int) -> PcapngScan: ...
