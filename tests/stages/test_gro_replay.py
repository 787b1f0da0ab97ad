"""What a live 6.18 kernel did with recorded cases, replayed: structure, order, headers, results."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay_gro import differences, read_records, replay

SAMPLE = Path(__file__).parent.parent / "data" / "gro-sample.jsonl.gz"


def test_every_recorded_case_is_decided_alike(engine):
    counts = replay({"it": engine("gro")}, read_records(SAMPLE))

    assert counts["counts"]["in scope"] == counts["counts"]["read"] > 300
    assert counts["counts"]["it differ"] == 0
    assert not counts["out of scope"]


@pytest.mark.parametrize("field", ["len", "gso_type", "ip_summed", "after", "hdr"])
def test_a_falsified_record_differs(engine, field):
    """The comparison has teeth: each compared field of an skb is really looked at."""
    record = next(iter(read_records(SAMPLE)))
    out = record["out"][0]
    out[field] = out[field] + 1 if isinstance(out[field], int) else "00" + out[field][2:-2] + "00"

    assert differences(engine("gro"), record)


def test_a_falsified_result_differs(engine):
    record = next(iter(read_records(SAMPLE)))
    record["in"][0][4] = 3 if record["in"][0][4] != 3 else 2

    assert differences(engine("gro"), record)
