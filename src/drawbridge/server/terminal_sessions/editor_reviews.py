"""Reviews in editors. A bridge (or the VS Code extension, which connects like one) requests reviews, decides on them
and comments on them with the same commands as clients, under the name of its editor."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Raw

from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.review_memory import ReviewMemory, review_key
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.protocols import local_ipc as wire
from drawbridge.server.approvals.editors import Editor, Person
from drawbridge.server.events import ReviewDecided, ReviewInterrupted
from drawbridge.server.protocol import commands, messages, replies
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError, not_written
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.reviews.messages import Recovered
from drawbridge.server.sessions.session import Session, Sessions
from drawbridge.text.review_words import decided_words, interrupted_words, no_session

logger = logging.getLogger("drawbridge.server")

FAILED = "Internal server error. The server's log has the details."


class KnownSessions(Protocol):
    """The part of the server's core that this module uses."""

    all_sessions: Sessions

    def leads_to(self, path: Path) -> Path: ...

    async def examine(self) -> None: ...


class ReviewCommands(Protocol):
    """The commands that this module executes on behalf of editors."""

    async def review_get(self, command: commands.ReviewGet, client: Subscriber) -> Answer[replies.Review]: ...

    async def review_decide(self, command: commands.ReviewDecide, client: Subscriber) -> Answer[replies.Review]: ...

    async def review_comment(
        self, command: commands.ReviewComment, client: Subscriber
    ) -> Answer[messages.ReviewCommented]: ...

    async def review_submit(self, command: commands.ReviewSubmit, client: Subscriber) -> Answer[replies.Accepted]: ...


class EditorReviews:
    """Answers each request in its own task, because git and disks can be slow and proposals must not wait for them."""

    def __init__(self, known: KnownSessions, commands: ReviewCommands, memory: ReviewMemory) -> None:
        self._known = known
        self._commands = commands
        self._memory = memory
        self._tasks = BackgroundTasks(logger)

    async def close(self) -> None:
        await self._tasks.close()

    def handle(self, editor: Editor, line: wire.ReviewLine) -> None:
        failed = wire.ReviewAnswer(id=line.id, code="INTERNAL", text=FAILED)
        self._tasks.start(self._answer(editor, line), "a review request from an editor", lambda _: editor.send(failed))

    def list_reviews(self, editor: Editor, line: wire.ReviewListRequest) -> None:
        none = wire.ReviewList(line.id, ())
        self._tasks.start(self._list(editor, line), "listing reviews for an editor", lambda _: editor.send(none))

    def remember(self, editor: Editor, line: wire.ReviewSeen) -> None:
        nothing = wire.ReviewRemembered(line.id)
        self._tasks.start(
            self._remember(editor, line), "storing what was seen in an editor", lambda _: editor.send(nothing)
        )

    async def _remember(self, editor: Editor, line: wire.ReviewSeen) -> None:
        """Stores what the user has seen of a review, together with what the user has seen of it in terminals. If the
        session no longer exists, nothing is stored."""
        session = self._known.all_sessions.find(line.project)
        if session is None:
            editor.send(wire.ReviewRemembered(line.id))
            return
        directory = str(self._known.leads_to(session.path))
        key = review_key(directory, session.id)

        def remembered() -> wire.ReviewRemembered:
            if line.review:
                self._memory.saw(key, line.hunks, line.review)
            is_new = line.notice and self._memory.saw_notice(directory)
            return wire.ReviewRemembered(line.id, self._memory.of(key).seen, is_new)

        editor.send(await asyncio.to_thread(remembered))

    async def _list(self, editor: Editor, line: wire.ReviewListRequest) -> None:
        await self._known.examine()
        given = editor.about.folders if editor.about else ()
        folders = await asyncio.to_thread(lambda: [_real(folder) for folder in given])
        seen, found = set[int](), list[str]()
        for session in self._known.all_sessions:
            directory = self._known.leads_to(session.path)
            is_near = any(directory.is_relative_to(folder) or folder.is_relative_to(directory) for folder in folders)
            if is_near and id(session.checkpoints) not in seen:
                seen.add(id(session.checkpoints))
                found.append(session.id)
        editor.send(wire.ReviewList(line.id, tuple(found)))

    async def _answer(self, editor: Editor, line: wire.ReviewLine) -> None:
        person = Person(editor.about.editor if editor.about else "an editor")
        done = False
        try:
            if isinstance(line, wire.ReviewRequest) and not line.project:
                session, found = await self._found(line, person)
            else:
                session = self._known.all_sessions.get(line.project)
                after = await self._change(line, person)
                done = not isinstance(line, wire.ReviewRequest)
                found = after or await self._review_of(session, person)
        except (ClientError, DrawbridgeError) as error:
            if isinstance(error, DrawbridgeError):
                logger.warning("a review request from an editor: %s", error)
            refused = not_written(error) if isinstance(error, DrawbridgeError) else error
            details = Raw(msgspec.json.encode(refused.details))
            known = self._known.all_sessions.find(line.project)
            directory = str(self._known.leads_to(known.path)) if known is not None else ""
            editor.send(
                wire.ReviewAnswer(
                    id=line.id, directory=directory, code=refused.code, text=refused.text, details=details, done=done
                )
            )
        else:
            review = Raw(msgspec.json.encode(found.data))
            # Editors show the notice of an answer only if they have requested the review.
            news = session.recovery.take_news() if isinstance(line, wire.ReviewRequest) else None
            editor.send(
                wire.ReviewAnswer(
                    id=line.id,
                    project=session.id,
                    directory=str(self._known.leads_to(session.path)),
                    review=review,
                    notice=_notice(news),
                )
            )

    async def _change(self, line: wire.ReviewLine, person: Person) -> Answer[replies.Review] | None:
        """Makes the change that is requested, if any. Returns the review after a decision; otherwise None."""

        match line:
            case wire.ReviewDecision():
                return await self._commands.review_decide(_decision(line), person)
            case wire.ReviewComment():
                await self._commands.review_comment(_comment(line), person)
            case wire.ReviewSubmission():
                command = commands.ReviewSubmit(
                    project_id=line.project, request_id=line.id, drafts=line.drafts, text=line.text
                )
                accepted = await self._commands.review_submit(command, person)
                if accepted.then is not None:
                    accepted.then()  # editors do not receive events of the run, so nothing has to wait for the reply
            case wire.ReviewRequest():
                pass
        return None

    async def _review_of(self, session: Session, person: Person) -> Answer[replies.Review]:
        return await self._commands.review_get(commands.ReviewGet(project_id=session.id), person)

    async def _found(self, line: wire.ReviewRequest, person: Person) -> tuple[Session, Answer[replies.Review]]:
        """The first session with a review that has files, otherwise the first session, with its review. Sessions with a
        review that can't be read are skipped. Raises ``ClientError`` if none is left."""
        first: tuple[Session, Answer[replies.Review]] | None = None
        problem: ClientError | None = None
        for session in await self._candidates(line):
            try:
                answer = await self._review_of(session, person)
            except ClientError as error:
                problem = problem or error
                continue
            if answer.data.files:
                return session, answer
            first = first or (session, answer)
        if first is None:
            raise problem or ClientError("PROJECT_NOT_FOUND", no_session("this directory"))
        return first

    async def _candidates(self, line: wire.ReviewRequest) -> list[Session]:
        """The sessions in the directories that contain the file, beginning with the innermost directory, then those in
        the editor's directory. Of sessions that share a review, only the first one is included."""

        def directories() -> list[Path]:
            return [*(_real(line.path).parents if line.path else ()), *([_real(line.folder)] if line.folder else ())]

        await self._known.examine()
        wanted = await asyncio.to_thread(directories)
        sessions = [(self._known.leads_to(session.path), session) for session in self._known.all_sessions]
        found: dict[int, Session] = {}
        for path in dict.fromkeys(wanted):
            for directory, session in sessions:
                if directory == path:
                    found.setdefault(id(session.checkpoints), session)
        return list(found.values())


def _notice(news: Recovered | None) -> str:
    """The notice about the result of an interrupted decision; empty if there is none to show."""
    match news:
        case ReviewInterrupted():
            return f"{news.by} {interrupted_words(msgspec.to_builtins(news))}"
        case ReviewDecided():
            return f"{news.by} {decided_words(msgspec.to_builtins(news))}."
        case _:
            return ""  # editors are not notified of a run that was reverted, or of a commit that was made


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def _comment(line: wire.ReviewComment) -> commands.ReviewComment:
    if line.comment is not None:
        remove = line.resolved is None
        return commands.ReviewComment(
            project_id=line.project, comment_id=line.comment, remove=remove, resolved=line.resolved
        )
    return commands.ReviewComment(
        project_id=line.project,
        request_id=line.id,
        path=line.path,
        line=line.line,
        end_line=line.end_line,
        quote=line.quote,
        text=line.text,
        suggestion=line.suggestion,
    )


def _decision(line: wire.ReviewDecision) -> commands.ReviewDecide:
    return commands.ReviewDecide(
        project_id=line.project,
        request_id=line.id,
        decision=line.decision,
        hunks=(line.hunk,) if line.hunk is not None else (),
        files=(line.file,) if line.file is not None else (),
        all=line.all,
        version=line.version or None,
    )
