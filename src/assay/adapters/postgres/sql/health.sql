-- What `assay doctor` asks a server; health_instance needs a migrated database.

-- name: health_server
-- The server and this login. Its own clock is meant here, not assay's: it is compared with this machine's.
SELECT current_setting('server_version'), statement_timestamp(), pg_is_in_recovery(),
       current_setting('transaction_read_only')::boolean, pg_database_size(current_database()),
       current_setting('max_connections')::integer,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::integer,
       has_database_privilege(current_database(), 'CREATE')

-- name: health_instance
-- Whether the database's clock is bent (tests and drills only).
SELECT kind, clock_scale, assay.assay_now() FROM assay.instance
