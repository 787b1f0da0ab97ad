"""Which system calls on a connected socket tell RFS where its application runs (R-3.2)."""

# Seen on 6.1 and 6.12: also when they fail with EAGAIN, and with MSG_PEEK.
RECORDS_FLOW = frozenset(
    {"recv", "recvmsg", "recvfrom", "read", "send", "sendmsg", "sendto", "write", "accept"}
)
# The error queue is another door: no data is read.
NOT_WITH = "MSG_ERRQUEUE"


def records_flow(call: str) -> bool:
    """Whether a call records, such as ``"recv(MSG_PEEK)"``."""
    name, _, flags = call.partition("(")
    return name in RECORDS_FLOW and NOT_WITH not in flags
