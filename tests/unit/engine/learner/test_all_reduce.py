import json
import subprocess
import sys

import pytest
import torch

from rlrun.engine.learner.data_parallel.all_reduce import AllReduce, PeerLost, local_address

MEMBER = """
import json, os, sys, torch
from rlrun.engine.learner.data_parallel.all_reduce import AllReduce
rank = int(sys.argv[1])
member = AllReduce(rank, 2, timeout_s=3600)
if rank == 0:
    print(json.dumps(member.offer()), flush=True)
member.join(json.loads(sys.stdin.readline()))
sums = []
for size in (1, 7, 1000):
    generator = torch.Generator().manual_seed(10 * rank + size)
    total = member(torch.randn(size, generator=generator))
    sums.append(total.tolist())
print(json.dumps(sums), flush=True)
if rank == 1:
    os._exit(1)
try:
    member(torch.ones(5))
except Exception as error:
    print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)
"""


@pytest.fixture(scope="module")
def told():
    """Output of two members in separate processes: their sums, and what the first one hears of the other's end.

    This waits much less long than a member waits for another one.
    """
    members = [
        subprocess.Popen(
            [sys.executable, "-c", MEMBER, str(rank)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    address = members[0].stdout.readline()
    for member in members:
        member.stdin.write(address)
        member.stdin.flush()
    return [[json.loads(line) for line in member.communicate(timeout=800)[0].splitlines()] for member in members]


def test_two_processes_receive_the_sum_of_their_tensors_bit_for_bit(told):
    first, second = (lines[0] for lines in told)
    assert first == second
    for size, total in zip((1, 7, 1000), first, strict=True):
        addends = [torch.randn(size, generator=torch.Generator().manual_seed(10 * rank + size)) for rank in range(2)]
        assert total == (addends[0] + addends[1]).tolist()


def test_the_death_of_a_member_raises_an_error_in_the_others_at_once(told):
    message = told[0][1]
    assert message.startswith("PeerLost: learner process 0 of 2 lost another one, or waited 3600 s for")


def test_a_member_that_nobody_joins_gives_up_after_the_timeout():
    member = AllReduce(0, 2, timeout_s=0.5)
    host, port = member.offer()
    with pytest.raises(PeerLost, match=rf"not all of the 2 .* connected to {host}:{port} within 0.5 s"):
        member.join((host, port))
    with pytest.raises(PeerLost, match="this process has lost the connection to the other learner processes"):
        member(torch.ones(1))


def test_a_member_that_finds_nobody_at_the_address_gives_up_after_the_timeout():
    first = AllReduce(0, 2)
    address = first.offer()
    first.close()
    with pytest.raises(PeerLost, match="out after"):
        AllReduce(1, 2, timeout_s=0.5).join(address)


def test_a_group_of_one_keeps_its_tensor_unchanged_and_can_join_again_at_another_address():
    member = AllReduce(0, 1)
    meeting = AllReduce(0, 1)
    for address in (member.offer(), meeting.offer()):
        member.join(address)
        assert member(torch.tensor([1.5, 2.5])).tolist() == [1.5, 2.5]


def test_the_local_address_for_a_loopback_peer_is_loopback():
    assert local_address("127.0.0.1") == "127.0.0.1"
