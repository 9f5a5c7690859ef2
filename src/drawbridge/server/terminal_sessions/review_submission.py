"""Sends the comments on a review to the agent of a terminal session: types them as a prompt, or leaves them with the
session."""

from __future__ import annotations

from collections.abc import Callable

from drawbridge.server.events import SubmittedReview
from drawbridge.server.protocol import commands
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.replies import Accepted
from drawbridge.server.reviews.commenting import submission_key
from drawbridge.server.terminal_sessions.prompt_text import typeable
from drawbridge.server.terminal_sessions.prompts import HAS_ENDED, MAYBE_TYPED, SentPrompt, check_not_steered
from drawbridge.server.terminal_sessions.session import TerminalSession


async def submit_review(
    session: TerminalSession, command: commands.ReviewSubmit, sender: Subscriber, allowed: Callable[[], bool]
) -> Answer[Accepted]:
    """Sends all drafts as one prompt to the session's agent, as ``Prompts.execute`` does, or leaves them with the session
    if nothing can be typed now. If neither is possible, the details of the error contain the prompt, so that the user can
    copy it. Raises ``ClientError``, ``NotPrivate``, ``NoCheckpoint``, ``GitFailed`` or OSError."""
    check_not_steered(command)
    drafts, id, key = command.drafts, command.request_id, submission_key(command.drafts, command.text)
    reviewed, handover, prompts = session.reviewed, session.handover, session.prompts
    await reviewed.sent()
    known = handover.known(id, key) or await prompts.known(id, key)
    if known is not None:
        return known
    located = await reviewed.located(drafts)
    await reviewed.sent()  # this request, or another one, may have sent the comments in the meantime
    known = handover.known(id, key) or await prompts.known(id, key)
    if known is not None:
        return known
    prompt, submission = reviewed.submission(located, drafts, command.text)
    try:
        if session.ended:
            raise ClientError("NOT_SUPPORTED", HAS_ENDED)
        if not prompts.can_type:
            accepted = handover.leave(prompt, submission, sender, id, allowed)
            session.store.audit(SubmittedReview(sender.audited, accepted.data.run_id))
            return accepted
        text = typeable(session.agent, prompt, "data.text")
        sent = SentPrompt(text, sender.name, id, review=submission, client_id=sender.id)
        sending = prompts.begin(sent, allowed)
        reviewed.sends(sending)
        accepted = await prompts.accepted(sending)
        session.store.audit(SubmittedReview(sender.audited, accepted.data.run_id))
        return accepted
    except ClientError as error:
        if error.code in MAYBE_TYPED:
            raise
        details = {**(error.details or {}), "prompt": prompt}
        raise ClientError(error.code, error.text, error.field, error.retryable, details) from None
