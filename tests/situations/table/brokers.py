"""Brokers that stand, die and come back: on clusters of three."""

from tests.situations.row import Action, Moment, Program, Row, Says

ON_ALL = ((1, 2, 3), (2, 3, 1))
"""One row after the other: each begins when the brokers of the one before it are back."""

ROWS = (
    Row(
        id="h-frozen-broker",
        healthy=True,
        cause="the leader of t:0 is frozen for 50 s; another one takes over, and the group goes on",
        programs=(Program(commit="auto", members=2),),
        replicas=ON_ALL,
        warm_s=30,
        begin=(Action(0, "freeze-broker", "leader t:0"), Action(50, "start-brokers")),
        wrong=Says(rules="rebalance-storm", history="crash-loop"),
    ),
    Row(
        id="h-coordinator-moves",
        healthy=True,
        cause="the broker that keeps the group is killed, and is back after 60 s",
        programs=(Program(commit="auto", members=2),),
        replicas=ON_ALL,
        warm_s=155,
        begin=(Action(0, "kill-broker", "coordinator g"), Action(60, "start-brokers")),
        wrong=Says(rules="rebalance-storm", history="crash-loop"),
    ),
    Row(
        id="no-leader",
        cause="the only broker that has t:1 is dead",
        programs=(Program(commit="each"),),
        replicas=((1,), (3,)),
        own_brokers=True,
        begin=(Action(0, "kill-broker", "leader t:1"),),
        right=Says(describe="no leader|without (a )?leader"),
        wrong=Says(lag="stop stall"),
        harms=("reset",),
        named_by=Moment.HALF_A_MINUTE,
    ),
)
