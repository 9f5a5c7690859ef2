"""The saved state of a session keeps its format, because earlier and later servers read the same files.

The literals must never change, except where a field with a default is added.
"""

from __future__ import annotations

import msgspec

from drawbridge.agents.base import AgentOffers, ModelOffer, Offer, Options
from drawbridge.server.approvals.pending import Verdict
from drawbridge.server.events import ReviewComment, ReviewNumbers, Submission
from drawbridge.server.reviews.remembered import RememberedComment
from drawbridge.server.sessions.metadata import Metadata, SessionMode, Waiting
from drawbridge.server.sessions.recorded_state import Day, RecordedState
from drawbridge.server.terminal_sessions.shared_comments import LeftComments

COMMENT = ReviewComment(
    comment_id="c1",
    by="Ada",
    path="a.py",
    side="new",
    line=1,
    end_line=2,
    quote="a\n",
    blob="5f3c",
    text="Why?",
    suggestion="b\n",
    state="sent",
    run_id="r1",
)
IN_FILE = (
    b'{"comment":{"comment_id":"c1","by":"Ada","path":"a.py","side":"new","line":1,"end_line":2,"quote":"a\\n",'
    b'"blob":"5f3c","text":"Why?","suggestion":"b\\n","state":"sent","run_id":"r1"},"seq":3,"changes":2,"begun":true,"steered":false}'
)

MEMORY = RecordedState(
    seq=9,
    session_id="s1",
    unfinished={"r2": "Ada"},
    requests={"q 12": "r1"},
    approvals={"a2": "r2"},
    verdicts={"a1": Verdict("Ada", "allow", client_id="client-1"), "a0": Verdict(reason="killed")},
    unproven=True,
    agent="demo",
    last_outcome="completed",
    cost_usd=0.5,
    title="Fix it",
    titled_by="r1",
    subject="Fix it",
    begun=1,
    names={"s1": "Walnuts"},
    days={"2026-11-21": 0.5},
    usage={"2026-11-21": Day(1, 0.5, 10, 20)},
    comments={"c1": RememberedComment(COMMENT, 3, 2, begun=True)},
    elsewhere={"r1": "/tmp/work"},
    usage_complete=True,
)
MEMORY_IN_FILE = (
    b'{"seq":9,"session_id":"s1","unfinished":{"r2":"Ada"},"requests":{"q 12":"r1"},"approvals":{"a2":"r2"},'
    b'"verdicts":{"a1":{"by":"Ada","decision":"allow","client_id":"client-1"},"a0":{"reason":"killed"}},'
    b'"unproven":true,"agent":"demo","last_outcome":"completed","cost_usd":0.5,"title":"Fix it","titled_by":"r1",'
    b'"subject":"Fix it","begun":1,"names":{"s1":"Walnuts"},"days":{"2026-11-21":0.5},'
    b'"usage":{"2026-11-21":{"runs":1,"cost_usd":0.5,"input_tokens":10,"output_tokens":20}},'
    b'"comments":{"c1":' + IN_FILE + b'},"shares_comments":false,"elsewhere":{"r1":"/tmp/work"},"usage_complete":true}'
)

METADATA = Metadata(
    id="p1",
    path="/work",
    session_id="s1",
    created_at="2026-11-21T12:00:00.000Z",
    last_active="2026-11-21T12:00:00.000Z",
    agent="demo",
    options=Options(model="opus", permission_mode="plan"),
    recorded=MEMORY,
    waiting=Waiting(1.5, "Go", "Ada", "demo", Options(effort="high")),
    review=ReviewNumbers(files=1, hunks=2, added=3, removed=4),
    session_mode=SessionMode("s1", "plan"),
)
METADATA_IN_FILE = (
    b'{"id":"p1","path":"/work","session_id":"s1","created_at":"2026-11-21T12:00:00.000Z",'
    b'"last_active":"2026-11-21T12:00:00.000Z","agent":"demo","options":{"permission_mode":"plan","model":"opus"},'
    b'"memory":' + MEMORY_IN_FILE + b',"waiting":{"at":1.5,"prompt":"Go","by":"Ada","agent":"demo",'
    b'"options":{"effort":"high"}},"review":{"files":1,"hunks":2,"added":3,"removed":4},'
    b'"session_mode":{"session_id":"s1","mode":"plan"},"version":1}'
)


def test_the_metadata_keeps_its_format() -> None:
    assert msgspec.json.encode(METADATA) == METADATA_IN_FILE
    assert msgspec.json.decode(METADATA_IN_FILE, type=Metadata) == METADATA


def test_the_comments_of_a_directory_keep_their_format() -> None:
    left = LeftComments("desk_1", "Address it", "Ada", Submission("key", ("c1",)), "q", "given", "r1", "t1")
    in_file = (
        b'{"session":"desk_1","text":"Address it","by":"Ada","review":{"key":"key","comments":["c1"]},"request_id":"q",'
        b'"state":"given","run":"r1","turn":"t1","client_id":"client-1"}'
    )
    assert msgspec.json.encode(msgspec.structs.replace(left, client_id="client-1")) == in_file
    of_older = in_file.replace(b',"client_id":"client-1"', b"")
    assert msgspec.json.decode(of_older, type=LeftComments) == left


def test_the_offers_of_an_agent_keep_their_format() -> None:
    offers = AgentOffers(
        commands=(Offer("compact", "Compacts", "WHAT"),), models=(ModelOffer("opus", efforts=("high",)),)
    )
    in_file = b'{"commands":[{"name":"compact","text":"Compacts","hint":"WHAT"}],"models":[{"name":"opus","efforts":["high"]}]}'
    assert msgspec.json.encode(offers) == in_file
    assert msgspec.json.decode(in_file, type=AgentOffers) == offers
