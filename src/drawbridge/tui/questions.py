"""Shows the first open approval request, and decides when it takes the focus."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from textual.containers import Vertical
from textual.message import Message

from drawbridge.tui import answers, wording
from drawbridge.tui.approval_view import ApprovalView
from drawbridge.tui.approval_words import ApprovalState
from drawbridge.tui.client import Client, question_of
from drawbridge.tui.connection import RequestError
from drawbridge.tui.conversation import Conversation
from drawbridge.tui.drawing import Painter
from drawbridge.tui.fields import PromptBox
from drawbridge.tui.history import History
from drawbridge.tui.requests import complain, do, do_lasting

STILL_SECONDS: Final = 1.0
"""Seconds without a keystroke after which an approval request takes the focus from an empty prompt box or from the
history."""

CLOSED: Final = {"reason": "answered elsewhere or withdrawn"}
"""The answer to show if it is not known how a request ended."""


class Questions(Vertical):
    class Settled(Message):
        """An approval request was closed. Another one may be open."""

    def __init__(self, client: Client, painter: Painter) -> None:
        super().__init__(id="open")
        self._client = client
        self._painter = painter
        self._last_key = 0.0
        self.card: ApprovalView | None = None
        """The approval request that is shown, if any."""

    def show(self, conversation: Conversation, height: int) -> None:
        """Shows the current state in at most ``height`` lines."""
        card = self.card
        gone = card is not None and card.approval_id not in conversation.open
        if card is not None and gone and not card.is_busy and not card.is_settled:
            answer = conversation.answers.get(card.approval_id) or CLOSED
            if answer.get("by"):
                verb = wording.verb(answer, card.request)
                self.notify(f"{wording.one_line(self._client.called(answer))} {verb} the request.", markup=False)
            self._settle(card, answer)
        if self.card is None and conversation.open:
            self._open(next(iter(conversation.open.values())))
        if self.card is not None:
            self.card.count(len(conversation.open))
            self.card.fit(height)

    def key_was_pressed(self) -> None:
        """Records that the user has pressed a key anywhere."""
        self._last_key = time.monotonic()

    def _open(self, request: answers.Request) -> None:
        project = self._client.project
        agent = self._client.agent_label(project["agent"]) if project else "The agent"
        may_answer, may_remember = self._client.may("permission_response"), self._client.may("set_mode")
        state = ApprovalState(may_answer=may_answer, may_remember=may_remember)
        self.card = ApprovalView(request, agent, self._painter, state)
        self.mount(self.card)
        self.set_timer(0.05, self._take_focus)

    def _take_focus(self) -> None:
        """Takes the focus from an empty prompt box or from the history, once no key has been pressed for
        ``STILL_SECONDS``. Until then, the next key may be meant for the prompt box."""
        card, focused = self.card, self.screen.focused
        if (
            card is None
            or not isinstance(focused, PromptBox | History)
            or (isinstance(focused, PromptBox) and focused.text)
        ):
            return
        left = STILL_SECONDS - (time.monotonic() - self._last_key)
        if left > 0:
            self.set_timer(left + 0.01, self._take_focus)
        else:
            card.uncover()

    def _settle(self, card: ApprovalView, answer: Mapping[str, Any]) -> None:
        """Closes a request that was resolved elsewhere or withdrawn. If the user has written something, the request
        stays on the screen and shows what happened."""
        if card.is_dirty:
            card.settle({**answer, "by": self._client.called(answer)} if answer.get("by") else answer)
        else:
            self._close(card)

    def _close(self, card: ApprovalView) -> None:
        if card is not self.card:
            return
        if card.has_focus_within:
            prompt = self.screen.query_one(PromptBox)
            (prompt if prompt.display else self.screen.query_one(History)).focus()
        card.remove()
        self.card = None
        self.post_message(self.Settled())

    def on_approval_view_answered(self, event: ApprovalView.Answered) -> None:
        event.stop()
        do_lasting(self, self._answer(event))

    async def _answer(self, event: ApprovalView.Answered) -> None:
        view = event.view
        refused: RequestError | None = None
        try:
            await self._client.answer(view.approval_id, **event.answer._asdict())
        except RequestError as error:
            complain(self.app, error)
            refused = error
        if not self.is_attached:
            return  # the user has left the project
        if refused is None:
            self._close(view)
        elif refused.code in ("APPROVAL_RESOLVED", "APPROVAL_NOT_FOUND"):
            known = refused.details.get("by") or refused.details.get("reason")
            self._settle(view, refused.details if known else CLOSED)
        else:
            view.failed()

    def on_approval_view_full_text_requested(self, event: ApprovalView.FullTextRequested) -> None:
        event.stop()
        do(self, self._bring(event.view))

    async def _bring(self, view: ApprovalView) -> None:
        record = await self._client.whole(view.request["truncated"]["blob_id"])
        whole = {**view.request, **question_of(record)}
        whole.pop("truncated", None)
        if not answers.questions(whole):
            view.show_whole(whole)
        elif view is self.card:  # a form replaces the text
            self._close(view)
            self._open(whole)

    def on_approval_view_closed(self, event: ApprovalView.Closed) -> None:
        event.stop()
        self._close(event.view)
