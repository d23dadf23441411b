"""Claims: which of the offered records are ours to annotate, and under which attempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from assay.adapters.postgres.claim_rows import attributes_of, task_of, verdict_of, with_kept
from assay.adapters.postgres.owner_lease import OwnerLease
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.record_keys import RecordKeys
from assay.adapters.postgres.session import Connection, Pool, columns, transact
from assay.adapters.postgres.work_list import Page, first_page
from assay.domain.failure_table import FAILURE_TABLE, Destination
from assay.domain.failures import Unreadable
from assay.domain.identity import InputKey, InputRecord
from assay.domain.sealing import text_aad
from assay.domain.work import ClaimedTask, Claims, LowPriority, NotWon, Offer, Verdict
from assay.ports import Probe, VaultPort

# Pages that one poll reads at most when others keep taking what it found.
_MOST_PAGES: Final = 4
_MAX_BYTES: Final = 2**62
# What waits for one of these is a retry; whatever else is parked was stopped by us.
_RETRY_CODES: Final = [rule.code for rule in FAILURE_TABLE.values() if rule.destination is Destination.RETRY]


class _Found(NamedTuple):
    """What came of a page, and the page behind it."""

    won: list[tuple[Any, ...]]
    next_page: Page | None


class ClaimStore:
    """Claims for one pipeline version by one worker, under its lease."""

    def __init__(
        self,
        pool: Pool,
        vault: VaultPort,
        *,
        version_id: int,
        lease: OwnerLease,
        lease_seconds: float,
        account: str | None = None,
        probe: Probe = lambda _: None,
    ) -> None:
        self._pool = pool
        self._keys = RecordKeys(vault)
        self._vault = vault
        self._version_id = version_id
        self._owner = lease
        self._lease_seconds = lease_seconds
        self._account = account
        self._probe = probe
        self._looks = 0
        self._sql = queries("claim")

    async def claim(self, source_id: int, offers: Sequence[Offer], *, park_as: str | None = None) -> Claims:
        """Claim what can be claimed; every offer is won or has a verdict.

        Keys that stand twice in the batch are offered in turn, so that a second content under one identity
        is seen as the conflict it is. With `park_as`, a reason, what is won is parked in the same
        transaction, due at once, and what waits already is settled.
        """
        claims = Claims([], [])
        await self._ensure_lease()
        for batch in _batches(offers):
            # Attempt ids are made outside the transaction: when its commit reply is lost, the second run
            # knows its own leases by them.
            attempts = {key: uuid4() for key in batch}
            one = await transact(self._pool, partial(self._claim, source_id, batch, attempts, park_as))
            claims.won.extend(one.won)
            claims.not_won.extend(one.not_won)
        return claims

    async def park_in(
        self, connection: Connection, source_id: int, offers: Sequence[Offer], reason: str
    ) -> Claims:
        """As `claim` with `park_as`, in a transaction of the caller's; no lease is needed for it."""
        claims = Claims([], [])
        for batch in _batches(offers):
            attempts = {key: uuid4() for key in batch}
            one = await self._claim(source_id, batch, attempts, reason, connection)
            claims.won.extend(one.won)
            claims.not_won.extend(one.not_won)
        return claims

    async def _claim(
        self,
        source_id: int,
        batch: dict[InputKey, Offer],
        attempts: dict[InputKey, UUID],
        park_as: str | None,
        connection: Connection,
    ) -> Claims:
        offers = list(batch.values())
        again = park_as is None
        found, to_end = await self._read(connection, source_id, offers, attempts, again=again)
        open_offers = [offer for offer, verdict in zip(offers, found, strict=True) if verdict is None]
        not_won = [v for v in found if v is not None and v.verdict is not Verdict.WON]
        recovered = [v.record for v in found if v is not None and v.verdict is Verdict.WON]
        won = await self._recover(connection, batch, recovered, attempts)
        if not open_offers:
            return _claims(batch, won, not_won)
        if to_end:
            await connection.execute(self._sql["end_leases"], {"lease_ids": to_end})
        keys = await self._register(connection, source_id, open_offers)
        rows = await self._insert_tasks(connection, open_offers, attempts)
        won |= await self._won(connection, batch, rows, keys, book=again)
        if rows and park_as is not None:
            await self._park(connection, [row[2] for row in rows], park_as)
        # Who waited while another version stored the input has won its task all the same, from a position
        # that is a duplicate: the first read saw no input, so it is noted by a second one.
        stored = {row[4] for row in rows} - keys.keys()
        strangers = [batch[InputKey(row[0], row[1])] for row in rows if row[4] in stored]
        if strangers:
            await self._read(connection, source_id, strangers, attempts, again=again)
        lost = [offer for offer in open_offers if offer.record.key not in won]
        if lost:
            # Somebody was faster, or the content differs: a new statement sees what they committed. What is
            # claimable again by now (their lease was that short) counts as in progress: offered once more.
            later, _ = await self._read(connection, source_id, lost, attempts, again=again)
            not_won += [
                verdict or NotWon(offer.record, Verdict.IN_PROGRESS)
                for offer, verdict in zip(lost, later, strict=True)
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
        *,
        again: bool,
    ) -> tuple[list[NotWon | None], list[int]]:
        """The verdict on each offer, None where it can be claimed, `won` for a claim of ours already; and the
        leases that have run out and must be ended before their tasks are claimed."""
        rows = await self._all(
            connection,
            "claim_read",
            {
                "record_ids": [offer.record.record_id for offer in offers],
                "input_versions": [offer.record.input_version for offer in offers],
                "version_id": self._version_id,
            },
        )
        verdicts: list[NotWon | None] = []
        duplicates = []
        to_end: set[int] = set()
        for offer, row in zip(offers, rows, strict=True):
            record = offer.record
            input_hash, state, claimable, wait, attempt, lease_to_end, *first_seen = row
            if input_hash is None and state is None:
                verdicts.append(None)
                continue
            if input_hash == record.sha256 and first_seen != [source_id, *record.position[:2]]:
                duplicates.append((*record.position[:2], *record.key))
            verdict = verdict_of(record, attempts, input_hash, (state, claimable, wait, attempt), again=again)
            verdicts.append(verdict)
            if verdict is None and lease_to_end is not None:
                to_end.add(lease_to_end)
        if duplicates:
            names = ("partitions", "offsets", "record_ids", "input_versions")
            await connection.execute(
                self._sql["claim_note_duplicates"], columns(duplicates, names) | {"source_id": source_id}
            )
        return verdicts, sorted(to_end)

    async def _register(
        self, connection: Connection, source_id: int, offers: Sequence[Offer]
    ) -> dict[int, bytes]:
        """Store inputs that are new; their data keys by text_ref."""
        subjects = {o.record.attributes.subject_id for o in offers} - {None}
        subject_keys = await self._keys.ensure_subjects(connection, {s for s in subjects if s is not None})
        keys: dict[InputKey, bytes] = {}
        rows = []
        for offer in offers:
            record = offer.record
            subject = record.attributes.subject_id
            record_key = record.key
            key, wrapped = self._vault.new_key(subject_keys[subject] if subject is not None else None)
            keys[record_key] = key
            sealed = self._vault.seal(key, record.text.encode(), text_aad(record_key, record.sha256))
            rows.append(self._input_row(record, wrapped, sealed))
        names = ("record_ids", "input_versions", "sha256s", "partitions", "offsets", "lines", "attributes",
                 "wrapped_keys", "ciphertexts")  # fmt: skip
        parameters = columns(rows, names) | {"source_id": source_id, "kek_id": self._vault.kek_id}
        stored = await self._all(connection, "claim_register_inputs", parameters)
        return {text_ref: keys[InputKey(record_id, version)] for record_id, version, text_ref in stored}

    @staticmethod
    def _input_row(record: InputRecord, wrapped: bytes, sealed: bytes) -> tuple[Any, ...]:
        return (record.record_id, record.input_version, record.sha256, record.position.partition,
                record.position.offset, record.position.line, attributes_of(record), wrapped,
                sealed)  # fmt: skip

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
        ours: dict[int, bytes],
        *,
        book: bool = True,
    ) -> dict[InputKey, ClaimedTask]:
        if not rows:
            return {}
        keys = ours
        if strangers := [row[4] for row in rows if row[4] not in ours]:
            keys = ours | await self._keys.of_texts(connection, strangers)
        won: dict[InputKey, ClaimedTask] = {}
        for row in rows:
            key = InputKey(row[0], row[1])
            record = batch[key].record
            won[key] = task_of(row, record.sha256, record.text, keys.get(row[4]))
        if book:
            again = any(task.tries > 1 for task in won.values())
            await self._book(connection, [task.task_id for task in won.values()], again=again)
        return won

    async def _book(self, connection: Connection, task_ids: list[int], *, again: bool) -> None:
        if again:
            await connection.execute(self._sql["claim_push_parked"], {"task_ids": task_ids})
        await connection.execute(self._sql["claim_batch"], self._lease_terms() | {"task_ids": task_ids})
        self._probe("in_claim")

    async def _park(self, connection: Connection, task_ids: list[int], reason: str) -> None:
        terms = {"task_ids": task_ids, "actor": self._owner.owner, "reason": reason}
        await connection.execute(self._sql["claim_park"], terms)

    async def claim_waiting(
        self, most: int, *, retries: int | None = None, max_bytes: int | None = None
    ) -> list[ClaimedTask]:
        """Claim parked tasks that are due and tasks whose worker died, from what PostgreSQL holds.

        At most `most` tasks, `retries` among them (None: any number), with texts of up to
        `max_bytes` (sealed) together; one task always fits. Normal records come before those of low priority,
        but for every eighth time; while low priority is paused, none of those comes.
        """
        await self._ensure_lease()
        won: list[ClaimedTask] = []
        budget = _MAX_BYTES if max_bytes is None else max_bytes
        self._looks += 1
        page = first_page(self._looks, most, most if retries is None else min(retries, most), budget)
        for _ in range(_MOST_PAGES):
            found = await transact(self._pool, partial(self._claim_page, page, {}))
            # In a transaction of its own: a worker that is stopped while texts are on their way to it must
            # not keep others from the rows.
            won.extend(await transact(self._pool, partial(self._opened, found.won)) if found.won else [])
            if found.next_page is None or found.won:
                break
            page = found.next_page
        return won

    async def _claim_page(self, page: Page, offered: dict[int, UUID], connection: Connection) -> _Found:
        if offered:
            # A second run: the first one's commit may have gone through, and only its reply was lost.
            names = ("task_ids", "attempt_ids")
            rows = await self._all(connection, "waiting_recover", columns(list(offered.items()), names))
            if rows:
                return _Found(rows, None)
        candidates = await self._all(
            connection, "waiting_candidates",
            {"version_id": self._version_id, "retry_codes": _RETRY_CODES, **page.parameters()},
        )  # fmt: skip
        offered.clear()
        offered.update((task_id, uuid4()) for task_id, *_ in candidates)
        if not offered:
            return _Found([], None)
        if to_end := sorted({lease for _, _, lease, _ in candidates if lease is not None}):
            await connection.execute(self._sql["end_leases"], {"lease_ids": to_end})
        terms = {"task_ids": list(offered), "attempt_ids": list(offered.values()),
                 "retry_codes": _RETRY_CODES}  # fmt: skip
        rows = await self._all(connection, "claim_waiting", self._lease_terms() | terms)
        if not rows:
            return _Found([], page.following([row[:4] for row in candidates]))
        await self._book(connection, [row[2] for row in rows], again=True)
        return _Found(rows, None)

    async def _opened(self, rows: list[tuple[Any, ...]], connection: Connection) -> list[ClaimedTask]:
        """Claimed tasks with their texts out of the vault."""
        texts = await self._keys.read_texts(connection, [row[4] for row in rows])
        kept = await self._kept(connection, [row for row in rows if row[14] is not None])
        opened = []
        for row in rows:
            identity = InputKey(row[0], row[1])
            sealed_key, sealed = texts.get(row[4], (None, b""))
            key, text = self._text(sealed_key, sealed, text_aad(identity, row[12]))
            task = task_of(row, row[12], text, key, is_retry=row[13])
            opened.append(with_kept(task, kept.get(row[2]), self._vault))
        return opened

    async def _kept(self, connection: Connection, rows: list[tuple[Any, ...]]) -> dict[int, tuple[Any, ...]]:
        """Sealed responses by task, of the replays that judge those again."""
        if not rows:
            return {}
        terms = {"task_ids": [row[2] for row in rows]}
        return {row[0]: row[1:] for row in await self._all(connection, "kept_responses", terms)}

    def _text(self, key: bytes | None, sealed: bytes, aad: bytes) -> tuple[bytes | None, str]:
        """Key and text; no key where they do not open: that task is set aside, the others go on."""
        try:
            return (key, self._vault.open(key, sealed, aad).decode()) if key is not None else (None, "")
        except Unreadable:
            return None, ""

    async def tidy(self) -> int:
        """Forget finished claim batches, and kept responses that have expired; returns how many batches."""
        rows = await transact(
            self._pool, lambda c: self._all(c, "tidy_batches", {"version_id": self._version_id})
        )
        await transact(self._pool, lambda c: c.execute(self._sql["tidy_responses"]))
        return int(rows[0][0])

    async def next_due(self) -> tuple[float | None, int]:
        """Seconds until the next parked task comes up (None: there is none), and how many are parked."""
        rows = await transact(
            self._pool, lambda c: self._all(c, "next_due", {"version_id": self._version_id})
        )
        return rows[0][0], rows[0][1]

    async def low_priority(self) -> LowPriority:
        """Whether records of low priority are paused, and how many of the version that holds back."""
        rows = await transact(
            self._pool, lambda c: self._all(c, "low_priority", {"version_id": self._version_id})
        )
        return LowPriority(*rows[0])

    async def release(self) -> None:
        """End the worker's lease: a run that is over holds nothing."""
        if self._owner.lease_id is not None:
            terms = {"lease_id": self._owner.lease_id}
            await transact(self._pool, lambda c: c.execute(self._sql["release_lease"], terms))

    async def _ensure_lease(self) -> None:
        """Outside of any claim: a claim that is rolled back must not take the lease along."""
        if self._owner.lease_id is None:
            terms = {"actor": self._owner.owner, "lease_seconds": self._lease_seconds}
            rows = await transact(self._pool, lambda c: self._all(c, "start_lease", terms))
            self._owner.lease_id = rows[0][0]

    def _lease_terms(self) -> dict[str, Any]:
        return {
            "version_id": self._version_id, "actor": self._owner.owner, "lease_id": self._owner.lease_id,
            "lease_seconds": self._lease_seconds, "account": self._account,
        }  # fmt: skip

    async def _all(self, connection: Connection, name: str, parameters: Any) -> list[tuple[Any, ...]]:
        cursor = await connection.execute(self._sql[name], parameters)
        return await cursor.fetchall()


def _batches(offers: Sequence[Offer]) -> Iterator[dict[InputKey, Offer]]:
    """The offers in batches in which no key stands twice."""
    rest = list(offers)
    while rest:
        batch: dict[InputKey, Offer] = {}
        rest = [offer for offer in rest if batch.setdefault(offer.record.key, offer) is not offer]
        yield batch


def _claims(batch: dict[InputKey, Offer], won: dict[InputKey, ClaimedTask], not_won: list[NotWon]) -> Claims:
    return Claims([(batch[key].record, task) for key, task in won.items()], not_won)
