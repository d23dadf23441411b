-- Where the text of an input was fetched from; how many bytes of a file its fingerprint covers: with that,
-- a file that was appended to is known as the source that it was.
ALTER TABLE assay.inputs ADD COLUMN document_ref text CHECK (document_ref <> '');
ALTER TABLE assay.sources ADD COLUMN size_bytes bigint CHECK (size_bytes >= 0);
