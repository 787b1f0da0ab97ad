import numpy as np
from numpy.typing import NDArray

U32s = NDArray[np.uint32]
U16s = NDArray[np.uint16]

def jhash_words(words: U32s, initval: int) -> U32s: ...
def jhash_bytes(data: bytes, initval: int) -> int: ...
def ehash_v4(
    laddr: U32s, lport: U16s, faddr: U32s, fport: U16s, secret: int, *, port_added: bool = False
) -> U32s: ...
def ehash_v6(
    laddr: U32s,
    lport: U16s,
    faddr: U32s,
    fport: U16s,
    secret: int,
    addr_secret: int,
    *,
    port_added: bool = False,
    xor_words: bool = False,
) -> U32s: ...
def portaddr_v4(address: U32s, port: U16s, hash_mix: int) -> U32s: ...
def portaddr_v6(address: U32s, port: U16s, hash_mix: int) -> U32s: ...
