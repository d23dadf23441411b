"""What a finish means to the replay that let its task out, in the finish's own transaction."""

from __future__ import annotations

from collections.abc import Sequence

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.session import Connection, columns
from assay.domain.work import Finish


class ReplayFinish:
    """Writes what replays are owed by finishes that have just moved their tasks."""

    def __init__(self) -> None:
        self._sql = queries("replay_finish")
        self._finish_sql = queries("finish")

    async def before_letters(self, connection: Connection, task_ids: list[int]) -> None:
        """The dead letters that these tasks were replayed from are resolved, before new ones are written."""
        await connection.execute(self._sql["replay_end_letters"], {"task_ids": task_ids})

    async def keep_responses(self, connection: Connection, dead: Sequence[Finish]) -> None:
        """Refused responses go into the vault, where their pipeline keeps them."""
        rows = [
            (f.task.task_id, f.task.attempt_id, f.response.pass_number, f.response.truncated,
             f.response.ciphertext, f.response.days)
            for f in dead
            if f.response is not None
        ]  # fmt: skip
        if rows:
            names = ("task_ids", "attempt_ids", "pass_numbers", "truncated", "ciphertexts", "days")
            await connection.execute(self._sql["keep_responses"], columns(rows, names))

    async def settle(self, connection: Connection, task_ids: list[int], actor: str) -> None:
        """Items end; a newer version's success supersedes the annotation that it was replayed from."""
        await connection.execute(self._sql["replay_inherit"], {"task_ids": task_ids})
        await connection.execute(self._sql["replay_failed_again"], {"task_ids": task_ids})
        await connection.execute(self._sql["replay_resolve_old"], {"task_ids": task_ids})
        await connection.execute(self._sql["replay_end_items"], {"task_ids": task_ids})
        cursor = await connection.execute(
            self._sql["replay_supersede"], {"task_ids": task_ids, "actor": actor}
        )
        if gone := [task_id for (task_id,) in await cursor.fetchall()]:
            await connection.execute(self._finish_sql["close_superseded"], {"task_ids": gone})
