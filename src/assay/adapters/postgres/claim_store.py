"""Claims: which of the offered records are ours to annotate, and under which attempt."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID, uuid4

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.record_keys import RecordKeys
from assay.adapters.postgres.session import Connection, Pool, columns, transact
from assay.domain.failures import Unreadable
from assay.domain.identity import Attributes, InputKey, InputRecord
from assay.domain.sealing import text_aad
from assay.domain.work import ClaimedTask, Claims, NotWon, Offer, Verdict
from assay.ports import Probe, VaultPort

_ATTRIBUTES: Final = {
    "document_type": "document_types", "customer": "customers", "subject_id": "subject_ids",
    "language": "languages", "sensitivity": "sensitivities", "jurisdiction": "jurisdictions",
    "schema_version": "schema_versions", "ocr_version": "ocr_versions", "priority": "priorities",
    "correlation_id": "correlation_ids", "trace_parent": "trace_parents",
}  # fmt: skip
assert set(_ATTRIBUTES) == {each.name for each in dataclasses.fields(Attributes)}


class ClaimStore:
    """Claims for one pipeline version by one worker (`actor`)."""

    def __init__(
        self,
        pool: Pool,
        vault: VaultPort,
        *,
        version_id: int,
        actor: str,
        lease_seconds: float,
        probe: Probe = lambda _: None,
    ) -> None:
        self._pool = pool
        self._keys = RecordKeys(vault)
        self._vault = vault
        self._version_id = version_id
        self._actor = actor
        self._lease = lease_seconds
        self._probe = probe
        self._sql = queries("claim")

    async def claim(self, source_id: int, offers: Sequence[Offer]) -> Claims:
        """Claim what can be claimed; every offer is won or has a verdict.

        Keys that stand twice in the batch are offered in turn, so that a second content under one identity
        is seen as the conflict it is.
        """
        claims = Claims([], [])
        rest = list(offers)
        while rest:
            batch: dict[InputKey, Offer] = {}
            later = [offer for offer in rest if batch.setdefault(offer.record.key, offer) is not offer]
            # Attempt ids are made outside the transaction: when its commit reply is lost, the second run
            # knows its own leases by them.
            attempts = {key: uuid4() for key in batch}
            one = await transact(self._pool, partial(self._claim, source_id, batch, attempts))
            claims.won.extend(one.won)
            claims.not_won.extend(one.not_won)
            rest = later
        return claims

    async def _claim(
        self,
        source_id: int,
        batch: dict[InputKey, Offer],
        attempts: dict[InputKey, UUID],
        connection: Connection,
    ) -> Claims:
        offers = list(batch.values())
        found = await self._read(connection, source_id, offers, attempts)
        open_offers = [offer for offer, verdict in zip(offers, found, strict=True) if verdict is None]
        not_won = [v for v in found if v is not None and v.verdict is not Verdict.WON]
        recovered = [v.record for v in found if v is not None and v.verdict is Verdict.WON]
        won = await self._recover(connection, batch, recovered, attempts)
        if not open_offers:
            return _claims(batch, won, not_won)
        keys, new_texts = await self._register(connection, source_id, open_offers)
        rows = await self._insert_tasks(connection, open_offers, attempts)
        won |= await self._won(connection, batch, rows, keys)
        # Who waited while another version stored the input has won its task all the same, from a position
        # that is a duplicate: the first read saw no input, so it is noted by a second one.
        stored = {row[4] for row in rows} - new_texts
        strangers = [batch[InputKey(row[0], row[1])] for row in rows if row[4] in stored]
        if strangers:
            await self._read(connection, source_id, strangers, attempts)
        lost = [offer for offer in open_offers if offer.record.key not in won]
        if lost:
            # Somebody was faster, or the content differs: a new statement sees what they committed. What is
            # claimable again by now (their lease was that short) counts as in progress: offered once more.
            again = await self._read(connection, source_id, lost, attempts)
            not_won += [
                verdict or NotWon(offer.record, Verdict.IN_PROGRESS)
                for offer, verdict in zip(lost, again, strict=True)
            ]
        return _claims(batch, won, not_won)

    async def _recover(
        self,
        connection: Connection,
        batch: dict[InputKey, Offer],
        records: Sequence[InputRecord],
        attempts: dict[InputKey, UUID],
    ) -> dict[InputKey, ClaimedTask]:
        if not records:
            return {}
        names = ("record_ids", "input_versions", "attempt_ids")
        parameters = columns([(*record.key, attempts[record.key]) for record in records], names)
        rows = await self._all(connection, "claim_recover", parameters | {"version_id": self._version_id})
        return await self._won(connection, batch, rows, {}, book=False)

    async def _read(
        self,
        connection: Connection,
        source_id: int,
        offers: Sequence[Offer],
        attempts: dict[InputKey, UUID],
    ) -> list[NotWon | None]:
        """The verdict on each offer, None where it can be claimed; `won` is a claim of ours already."""
        rows = await self._all(
            connection,
            "claim_read",
            {
                "record_ids": [offer.record.record_id for offer in offers],
                "input_versions": [offer.record.input_version for offer in offers],
                "version_id": self._version_id,
            },
        )
        verdicts = []
        duplicates = []
        for offer, (input_hash, state, claimable, wait, attempt, *first_seen) in zip(
            offers, rows, strict=True
        ):
            record = offer.record
            if input_hash == record.sha256 and first_seen != [source_id, *record.position[:2]]:
                duplicates.append((*record.position[:2], *record.key))
            if state == "erased":
                verdict: NotWon | None = NotWon(record, Verdict.ERASED)
            elif input_hash is not None and input_hash != record.sha256:
                verdict = NotWon(record, Verdict.CONFLICT)
            elif attempt is not None and attempt == attempts[record.key]:
                verdict = NotWon(record, Verdict.WON)
            elif state is None or claimable:
                verdict = None
            elif state == "processing":
                verdict = NotWon(record, Verdict.IN_PROGRESS, wait)
            else:
                verdict = NotWon(record, Verdict.SETTLED)
            verdicts.append(verdict)
        if duplicates:
            names = ("partitions", "offsets", "record_ids", "input_versions")
            await connection.execute(
                self._sql["claim_note_duplicates"], columns(duplicates, names) | {"source_id": source_id}
            )
        return verdicts

    async def _register(
        self, connection: Connection, source_id: int, offers: Sequence[Offer]
    ) -> tuple[dict[InputKey, tuple[bytes, bytes]], set[int]]:
        """Store inputs that are new: our keys (plain, wrapped) per input, used or not, and the new refs."""
        subjects = {o.record.attributes.subject_id for o in offers} - {None}
        subject_keys = await self._keys.ensure_subjects(connection, {s for s in subjects if s is not None})
        keys: dict[InputKey, tuple[bytes, bytes]] = {}
        rows = []
        for offer in offers:
            record = offer.record
            subject = record.attributes.subject_id
            key, wrapped = self._vault.new_key(subject_keys[subject] if subject is not None else None)
            keys[record.key] = key, wrapped
            sealed = self._vault.seal(key, record.text.encode(), text_aad(record.key, record.sha256))
            rows.append(self._input_row(record, wrapped, sealed))
        names = ("record_ids", "input_versions", "sha256s", "partitions", "offsets", "lines",
                 *_ATTRIBUTES.values(), "wrapped_keys", "ciphertexts")  # fmt: skip
        parameters = columns(rows, names) | {"source_id": source_id, "kek_id": self._vault.kek_id}
        rows_stored = await self._all(connection, "claim_register_inputs", parameters)
        return keys, {text_ref for (text_ref,) in rows_stored}

    @staticmethod
    def _input_row(record: InputRecord, wrapped: bytes, sealed: bytes) -> tuple[Any, ...]:
        attributes = (getattr(record.attributes, name) for name in _ATTRIBUTES)
        return (record.record_id, record.input_version, record.sha256, record.position.partition,
                record.position.offset, record.position.line, *attributes, wrapped, sealed)  # fmt: skip

    async def _insert_tasks(
        self, connection: Connection, offers: Sequence[Offer], attempts: dict[InputKey, UUID]
    ) -> list[tuple[Any, ...]]:
        rows = [
            (o.record.record_id, o.record.input_version, o.record.sha256, attempts[o.record.key],
             o.quality_probability, o.quality_selected)
            for o in offers
        ]  # fmt: skip
        names = ("record_ids", "input_versions", "sha256s", "attempt_ids", "quality_probabilities",
                 "quality_selected")  # fmt: skip
        return await self._all(connection, "claim_tasks", columns(rows, names) | self._lease_terms())

    async def _won(
        self,
        connection: Connection,
        batch: dict[InputKey, Offer],
        rows: list[tuple[Any, ...]],
        ours: dict[InputKey, tuple[bytes, bytes]],
        *,
        book: bool = True,
    ) -> dict[InputKey, ClaimedTask]:
        if not rows:
            return {}
        keys = await self._keys.of_texts(connection, [row[4] for row in rows], [w for _, w in ours.values()],
                                         [k for k, _ in ours.values()])  # fmt: skip
        won: dict[InputKey, ClaimedTask] = {}
        for row in rows:
            key = InputKey(row[0], row[1])
            record = batch[key].record
            won[key] = _task(row, record.sha256, record.text, keys.get(row[4]))
        if book:
            await self._book(connection, list(won.values()))
        return won

    async def _book(self, connection: Connection, won: Sequence[ClaimedTask]) -> None:
        task_ids = [task.task_id for task in won]
        if any(task.tries > 1 for task in won):
            await connection.execute(self._sql["claim_push_parked"], {"task_ids": task_ids})
        await connection.execute(self._sql["claim_batch"], self._lease_terms() | {"task_ids": task_ids})
        self._probe("in_claim")

    async def claim_waiting(self, most: int) -> list[ClaimedTask]:
        """Claim parked tasks that are due and tasks whose worker died, from what PostgreSQL holds."""
        offered: dict[int, UUID] = {}
        return await transact(self._pool, lambda c: self._claim_waiting(c, most, offered))

    async def _claim_waiting(
        self, connection: Connection, most: int, offered: dict[int, UUID]
    ) -> list[ClaimedTask]:
        if offered:
            # A second run: the first one's commit may have gone through, and only its reply was lost.
            names = ("task_ids", "attempt_ids")
            rows = await self._all(connection, "waiting_recover", columns(list(offered.items()), names))
            if rows:
                return await self._opened(connection, rows)
        found = await self._all(
            connection, "waiting_candidates", {"version_id": self._version_id, "most": most}
        )
        offered.clear()
        offered.update((task_id, uuid4()) for (task_id,) in found[:most])
        if not offered:
            return []
        terms = {"task_ids": list(offered), "attempt_ids": list(offered.values())}
        rows = await self._all(connection, "claim_waiting", self._lease_terms() | terms)
        if not rows:
            return []
        won = await self._opened(connection, rows)
        await self._book(connection, won)
        return won

    async def _opened(self, connection: Connection, rows: list[tuple[Any, ...]]) -> list[ClaimedTask]:
        """Claimed tasks with their texts out of the vault."""
        texts = await self._keys.read_texts(connection, [row[4] for row in rows])
        opened = []
        for row in rows:
            aad = text_aad(InputKey(row[0], row[1]), row[12])
            sealed_key, sealed = texts.get(row[4], (None, b""))
            key, text = self._text(sealed_key, sealed, aad)
            opened.append(_task(row, row[12], text, key))
        return opened

    def _text(self, key: bytes | None, sealed: bytes, aad: bytes) -> tuple[bytes | None, str]:
        """Key and text; no key where they do not open: that task is set aside, the others go on."""
        try:
            return (key, self._vault.open(key, sealed, aad).decode()) if key is not None else (None, "")
        except Unreadable:
            return None, ""

    async def tidy(self) -> int:
        """Forget finished claim batches; returns how many."""
        rows = await transact(
            self._pool, lambda c: self._all(c, "tidy_batches", {"version_id": self._version_id})
        )
        return int(rows[0][0])

    async def next_due(self) -> tuple[float | None, int]:
        """Seconds until the next parked task comes up (None: there is none), and how many are parked."""
        rows = await transact(
            self._pool, lambda c: self._all(c, "next_due", {"version_id": self._version_id})
        )
        return rows[0][0], rows[0][1]

    def _lease_terms(self) -> dict[str, Any]:
        return {"version_id": self._version_id, "actor": self._actor, "lease_seconds": self._lease}

    async def _all(self, connection: Connection, name: str, parameters: Any) -> list[tuple[Any, ...]]:
        cursor = await connection.execute(self._sql[name], parameters)
        return await cursor.fetchall()


def _claims(batch: dict[InputKey, Offer], won: dict[InputKey, ClaimedTask], not_won: list[NotWon]) -> Claims:
    return Claims([(batch[key].record, task) for key, task in won.items()], not_won)


def _task(row: tuple[Any, ...], sha256: bytes, text: str, key: bytes | None) -> ClaimedTask:
    record_id, input_version, task_id, attempt_id, text_ref, attempts, *rest = row
    first_pass, selected, tries, take_overs, age, over, *_ = rest
    return ClaimedTask(
        task_id=task_id, attempt_id=attempt_id, record_id=record_id, input_version=input_version,
        sha256=sha256, text=text, text_ref=text_ref, key=key or b"", attempts=attempts,
        first_pass_code=first_pass, quality_selected=selected, tries=tries, take_overs=take_overs,
        age_seconds=age, taken_over=over, readable=key is not None,
    )  # fmt: skip
