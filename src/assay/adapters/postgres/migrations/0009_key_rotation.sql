-- Which key-encryption keys this database was written with. The row of the first one is made in the transaction
-- that first uses it, so that of two first runs with different keys one is refused. A rotation names the new key
-- `current` and the old one `previous`: both may be written under until the old one is `retired`, from when on the
-- database refuses it. Texts and isolated bytes under a subject's key are not counted: their own kek_id says
-- nothing, the subject's does.

CREATE TABLE assay_vault.keys (
    kek_id     text COLLATE "C" PRIMARY KEY CHECK (kek_id <> ''),
    state      text NOT NULL CHECK (state IN ('current', 'previous', 'retired')),
    added_at   timestamptz NOT NULL,
    changed_at timestamptz NOT NULL CHECK (changed_at >= added_at)
);
CREATE UNIQUE INDEX keys_one_current ON assay_vault.keys ((true)) WHERE state = 'current';

-- A database from before has one key: whatever wrote under another one was refused.
INSERT INTO assay_vault.keys (kek_id, state, added_at, changed_at)
SELECT found.kek_id, 'current', assay.assay_now(), assay.assay_now()
FROM (
    (SELECT x.kek_id, 1 AS rank FROM assay_vault.texts x ORDER BY x.text_ref DESC LIMIT 1)
    UNION ALL
    (SELECT w.kek_id, 2 FROM assay_vault.raws w ORDER BY w.raw_ref DESC LIMIT 1)
    UNION ALL
    (SELECT s.kek_id, 3 FROM assay_vault.subject_keys s LIMIT 1)
) AS found
ORDER BY found.rank
LIMIT 1
ON CONFLICT DO NOTHING;

-- Writers hold the lock shared until they commit; whoever retires a key takes it alone. So once a key is retired,
-- nothing is written under it any more, and what was is visible to a count. (Locks on the key's row would do as
-- well, but a stream of writers could keep the one who retires it waiting for ever.)
CREATE FUNCTION assay_vault.guard_kek(given text[]) RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    refused text;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1634956009);
    SELECT g.kek_id INTO refused
    FROM unnest(given) AS g (kek_id)
    WHERE NOT EXISTS (SELECT FROM assay_vault.keys k WHERE k.kek_id = g.kek_id AND k.state <> 'retired')
    LIMIT 1;
    IF refused IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO assay_vault.keys (kek_id, state, added_at, changed_at)
    SELECT refused, 'current', assay.assay_now(), assay.assay_now()
    WHERE NOT EXISTS (SELECT FROM assay_vault.keys)
    ON CONFLICT DO NOTHING;
    SELECT g.kek_id INTO refused
    FROM unnest(given) AS g (kek_id)
    WHERE NOT EXISTS (SELECT FROM assay_vault.keys k WHERE k.kek_id = g.kek_id AND k.state <> 'retired')
    LIMIT 1;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION 'vault key % is not in use in this database', refused USING ERRCODE = 'AS003';
    END IF;
END
$$;

CREATE FUNCTION assay_vault.guard_sealed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM assay_vault.guard_kek(
        (SELECT array_agg(DISTINCT b.kek_id) FROM born b WHERE b.subject_id IS NULL));
    RETURN NULL;
END
$$;
CREATE FUNCTION assay_vault.guard_subject_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM assay_vault.guard_kek((SELECT array_agg(DISTINCT b.kek_id) FROM born b));
    RETURN NULL;
END
$$;
CREATE TRIGGER guard_text_key AFTER INSERT ON assay_vault.texts
    REFERENCING NEW TABLE AS born FOR EACH STATEMENT EXECUTE FUNCTION assay_vault.guard_sealed();
CREATE TRIGGER guard_text_rewrap AFTER UPDATE ON assay_vault.texts
    REFERENCING NEW TABLE AS born FOR EACH STATEMENT EXECUTE FUNCTION assay_vault.guard_sealed();
CREATE TRIGGER guard_raw_key AFTER INSERT ON assay_vault.raws
    REFERENCING NEW TABLE AS born FOR EACH STATEMENT EXECUTE FUNCTION assay_vault.guard_sealed();
CREATE TRIGGER guard_raw_rewrap AFTER UPDATE ON assay_vault.raws
    REFERENCING NEW TABLE AS born FOR EACH STATEMENT EXECUTE FUNCTION assay_vault.guard_sealed();
CREATE TRIGGER guard_subject_key AFTER INSERT ON assay_vault.subject_keys
    REFERENCING NEW TABLE AS born FOR EACH STATEMENT EXECUTE FUNCTION assay_vault.guard_subject_key();
CREATE TRIGGER guard_subject_rewrap AFTER UPDATE ON assay_vault.subject_keys
    REFERENCING NEW TABLE AS born FOR EACH STATEMENT EXECUTE FUNCTION assay_vault.guard_subject_key();

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'assay_vault') THEN
        GRANT SELECT ON assay_vault.keys TO assay_vault;
    END IF;
END
$$;
