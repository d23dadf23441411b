-- The vault has a role of its own: whoever may touch sealed texts and keys is a member of it. The account that
-- runs migrations owns both schemas; other accounts (analysts, dashboards) get `assay` without the vault.
-- Roles belong to the whole server: it may exist already, and where this account may not create roles an
-- administrator does (`CREATE ROLE assay_vault NOLOGIN`, then these grants).
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'assay_vault') AND (
        SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user)
    THEN
        BEGIN
            CREATE ROLE assay_vault NOLOGIN;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL; -- another database of this server was migrated at the same moment
        END;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'assay_vault') THEN
        GRANT USAGE ON SCHEMA assay_vault TO assay_vault;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA assay_vault TO assay_vault;
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA assay_vault TO assay_vault;
    END IF;
END
$$;
