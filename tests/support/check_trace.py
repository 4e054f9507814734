"""A trace as viewers read it (Chrome trace events): check(events, ranks) fails with the rule that is broken.

The rules are those that Perfetto reports or repairs silently: numbers of processes and threads are above 0 and belong to
one thread each, bars of a thread lie side by side or within each other, arrows have whole numbers, one begin and one end,
and both lie within a bar. Each rank has a bar for each step, around all bars of its instructions.
"""
from collections import Counter, defaultdict


def check(events, ranks):
    bars, owner = defaultdict(list), {}
    for e in events:
        if "tid" in e:
            assert owner.setdefault(e["tid"], e["pid"]) == e["pid"], f"thread {e['tid']} in two processes"
        if e["ph"] == "X":
            begin = round(e["ts"] * 1000)
            bars[e["pid"], e["tid"]].append((begin, begin + round(e["dur"] * 1000), e))
    processes = {pid for pid, _ in bars}
    assert len(processes) == ranks and min(processes) > 0, processes
    assert min(owner) > 0 and not set(owner) & processes, "a thread has the number of a process"
    for track in bars.values():
        open_until = []
        for begin, end, e in sorted(track, key=lambda bar: (bar[0], -bar[1])):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            assert not open_until or end <= open_until[-1], f"{e['name']} overlaps the bar before it"
            open_until.append(end)
    arrows = [e for e in events if e["ph"] in "sf"]
    assert all(isinstance(e["id"], int) for e in arrows), "the id of an arrow is no whole number"
    assert all(count == 1 for count in Counter((e["ph"], e["id"]) for e in arrows).values()), "two arrows of one id"
    assert {e["id"] for e in arrows if e["ph"] == "s"} == {e["id"] for e in arrows if e["ph"] == "f"}, "an arrow without an end"
    for e in arrows:
        at = round(e["ts"] * 1000)
        assert any(begin <= at < end or begin == at == end for begin, end, _ in bars[e["pid"], e["tid"]]), f"an arrow at {e['ts']} has no bar"
    for pid in processes:
        mine = [bar for (p, _), track in bars.items() if p == pid for bar in track]
        steps = sorted(bar for bar in mine if bar[2]["cat"] == "step")
        assert steps, f"process {pid} has no steps"
        for begin, end, e in mine:
            assert any(s[0] <= begin and end <= s[1] for s in steps), f"{e['name']} lies in no step"
