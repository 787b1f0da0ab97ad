"""What differs between kernels, as data: a profile is a name and switches, each with its source."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Literal, get_args

import attrs

from emu.errors import ConfigError

Lookup = Literal["array", "legacy"]
MaskPolicy = Literal["reject", "boost"]
MaskQuirk = Literal["none", "primary_only", "hash2_only"]
SWITCHES = (
    "reuseport_cpu_aware",
    "tcp_ehash_port_added",
    "gro_fixed_id_needs_df",
    "pfifo_fast_lockless",
    "defer_free",
    "ooo_needs_empty_wmem",
    "refcnt_in_lookup_line",
    "gro_outer_id_unchecked",
    "gro_cwr_masked",
    "gro_cwr_merges",
    "gro_old_gso_bits",
    "gro_tcp_fraglist",
    "gro_jumbo_header",
    "rfs_low_bits",
    "rfs_forgets",
    "udp_conn_stays",
)


@attrs.frozen(kw_only=True, slots=True)
class KernelProfile:
    """The rules of one kernel."""

    name: str
    # "array": reuseport groups are arrays (4.5 and later); "legacy": a chain is scanned
    # and equal scores share by phash (3.9 to 4.4, SOCK-79..84).
    lookup: Lookup = "array"
    # A group with an SO_INCOMING_CPU member walks on to the socket of this CPU (6.2 and later,
    # SOCK-43..45).
    reuseport_cpu_aware: bool = True
    # The local TCP port is added outside jhash (seen in 6.18.9, not in 6.12.15: SOCK-12).
    tcp_ehash_port_added: bool = True
    # SO_INCOMING_CPU_MASK was never merged. "reject" is the reconstruction of the patch (SOCK-24),
    # "boost" the alternative in which a mask only adds to the score (SOCK-28).
    mask_policy: MaskPolicy = "reject"
    # The historical patch had the mask in one of the two scans of UDP over IPv6 only; which one is
    # unknown (SOCK-29).
    mask_v6_udp_quirk: MaskQuirk = "none"
    # A fixed IPv4 ID joins only with DF set (6.12); 6.18 takes it with DF clear also (GRO-12).
    gro_fixed_id_needs_df: bool = False
    # Slots of the UDP tables: one for each 2 MiB of memory, 256 to 65536; here 32 GiB.
    udp_slots: int = 16384
    # The qdisc of a tx queue is pfifo_fast without a lock (NOLOCK, 4.16: transmit.md 8.2).
    pfifo_fast_lockless: bool = True
    # What another CPU's driver allocated is handed back to it instead of being freed where it is
    # read (skb_attempt_defer_free, 5.19: transmit.md 9; on UDP's path from 6.18).
    defer_free: bool = True
    # A TCP flow may change its tx queue only with nothing of it in qdiscs and rings; from August
    # 2023 an empty retransmit queue will do as well (transmit.md 6.4).
    ooo_needs_empty_wmem: bool = False
    # The reference count shares a line with what a lookup reads of each socket of a chain (3.13 to
    # 4.3, LOCK-3): a delivery takes that line from the CPUs that look up.
    refcnt_in_lookup_line: bool = False
    # GRO looks at no outer IP ID of a tunnel with DF set (GRO-14).
    gro_outer_id_unchecked: bool = False
    # CWR is left out of the compared flags (GRO-22).
    gro_cwr_masked: bool = False
    # CWR joins CWR (GRO-23): after 6.18.
    gro_cwr_merges: bool = False
    # One SKB_GSO_TCP_FIXEDID bit, and SKB_GSO_TCP_ECN for CWR (receive.md 5.4).
    gro_old_gso_bits: bool = False
    # rx-gro-list chains TCP too (GRO-45, 6.10).
    gro_tcp_fraglist: bool = True
    # IPv6 above 64 KiB gets a hop-by-hop header (GRO-A11).
    gro_jumbo_header: bool = True
    # The low bits of a hash choose the place in a queue's flow table; 6.18: hash_32.
    rfs_low_bits: bool = False
    # A socket that closes empties its entry of the global flow table (R-3.2, 6.18).
    rfs_forgets: bool = True
    # A connected UDP socket stays in its group and is skipped (SOCK-56): before hash4.
    udp_conn_stays: bool = False
    # Fields whose value in this kernel nobody has read or seen: they stand as in the next one that
    # has a source.
    unsourced: frozenset[str] = frozenset()

    def __attrs_post_init__(self) -> None:
        where = f"kernel {self.name!r}"
        words = {"lookup": Lookup, "mask_policy": MaskPolicy, "mask_v6_udp_quirk": MaskQuirk}
        for field, kind in words.items():
            _check_word(f"{where}: {field}", getattr(self, field), get_args(kind))
        for field in SWITCHES:
            if type(getattr(self, field)) is not bool:
                raise ConfigError(f"{where}: {field}", repr(getattr(self, field)), "true or false")
        slots = self.udp_slots
        if type(slots) is not int or not 256 <= slots <= 65536 or slots & (slots - 1):
            raise ConfigError(f"{where}: udp_slots", repr(slots), "a power of two, 256 to 65536")

    def replace(self, **changes: Any) -> KernelProfile:
        """The same kernel with other switches; its name says so, unless one is given.

        Raises:
            ConfigError: no such switch, or a value that it does not take.
        """
        fields = [field.name for field in attrs.fields(type(self)) if field.name != "unsourced"]
        for field in changes:
            _check_word(f"kernel {self.name!r}", field, fields)
        other = attrs.evolve(self, **changes)
        if "name" in changes or other == self or self.name.endswith("+"):
            return other
        return attrs.evolve(other, name=f"{self.name}+")


def _check_word(where: str, given: object, choices: Any) -> None:
    if not isinstance(given, str) or given not in choices:
        matches = get_close_matches(str(given), list(choices), n=1, cutoff=0.4)
        allowed = ", ".join(f'"{choice}"' for choice in choices)
        raise ConfigError(where, repr(given), allowed, f'"{matches[0]}"' if matches else "")


SEEN_6_12: dict[str, Any] = {
    "tcp_ehash_port_added": False,
    "gro_fixed_id_needs_df": True,
    "gro_outer_id_unchecked": True,
    "gro_cwr_masked": True,
    "gro_old_gso_bits": True,
    "rfs_low_bits": True,
    "rfs_forgets": False,
    "udp_conn_stays": True,
}
OLDEST: dict[str, Any] = {
    **SEEN_6_12,
    "lookup": "legacy",
    "reuseport_cpu_aware": False,
    "pfifo_fast_lockless": False,
    "defer_free": False,
    "ooo_needs_empty_wmem": True,
    "refcnt_in_lookup_line": True,
    "gro_tcp_fraglist": False,
    "gro_jumbo_header": False,
}
# What only newer kernels have been read for.
GRO_UNREAD = frozenset({"gro_outer_id_unchecked", "gro_cwr_masked"})

KERNELS = {
    "6.18": KernelProfile(name="6.18"),
    "6.12": KernelProfile(name="6.12", **SEEN_6_12),
    "6.1": KernelProfile(
        name="6.1",
        **SEEN_6_12,
        gro_tcp_fraglist=False,
        ooo_needs_empty_wmem=True,
        unsourced=frozenset({"gro_outer_id_unchecked"}),
    ),
    # A kernel from before the arrays, as the mask patch of 2015 was written for: 3.9 to 4.4.
    "legacy": KernelProfile(name="legacy", **OLDEST, unsourced=GRO_UNREAD | {"rfs_forgets"}),
    # XPS's first release. What is not XPS has no source and stands as in "legacy".
    "2.6.38": KernelProfile(
        name="2.6.38",
        **OLDEST,
        unsourced=(frozenset(SWITCHES) | {"lookup"}) - {"pfifo_fast_lockless", "defer_free"},
    ),
}

# Each difference in words: (field, since when, where it was read or seen).
DIFFERENCES: tuple[tuple[str, str, str], ...] = (
    ("lookup", "arrays since 4.5 and 4.6", "source of 3.10, 4.4, 6.18 (SOCK-79..84)"),
    ("reuseport_cpu_aware", "6.2; 6.1.y has it backported", "source of 6.1.166; seen on 6.1, 6.12"),
    ("tcp_ehash_port_added", "between 6.12 and 6.18", "source of 6.12.15 and 6.18.9"),
    ("udp_conn_stays", "until hash4, between 6.12 and 6.18", "source; seen on 6.12 and 6.18"),
    ("udp_slots", "by memory", "one slot for each 2 MiB"),
    ("mask_policy", "never merged", "reconstruction (SOCK-24, SOCK-28)"),
    ("mask_v6_udp_quirk", "never merged", "the patch's line counts (SOCK-29)"),
    ("gro_fixed_id_needs_df", "until 6.18", "source of 6.1, 6.12; seen on 6.18"),
    ("gro_outer_id_unchecked", "until 6.18", "source of 6.12; seen on 6.18"),
    ("gro_cwr_masked", "until 6.18", "source of 6.1, 6.12; seen on 6.18"),
    ("gro_cwr_merges", "after 6.18", "the newest selftest"),
    ("gro_old_gso_bits", "until 6.18", "source of 6.1, 6.12; seen on 6.18"),
    ("gro_tcp_fraglist", "6.10", "source of 6.12; seen on 6.18"),
    ("gro_jumbo_header", "5.19 to 6.18", "source of 6.18; seen on 6.18"),
    ("rfs_low_bits", "until 6.18", "source of 6.12 and 6.18; seen on both"),
    ("rfs_forgets", "6.18", "source of 6.12 and 6.18"),
    ("pfifo_fast_lockless", "4.16", "source"),
    ("defer_free", "5.19", "source"),
    ("ooo_needs_empty_wmem", "until 6.6", "the list, August 2023"),
    ("refcnt_in_lookup_line", "3.13 to 4.3", "changelog of 4.4 (LOCK-3)"),
)


def get_kernel(name: str | KernelProfile) -> KernelProfile:
    """The profile of that name; a profile is given back as it is.

    Raises:
        ConfigError: no such kernel.
    """
    if isinstance(name, KernelProfile):
        return name
    _check_word("kernel", name, KERNELS)
    return KERNELS[name]
