-- What became of messages: new inputs, known ones at another place, those that are no record or conflict.
SELECT (SELECT count(*) FROM assay.inputs), (SELECT count(*) FROM assay.source_duplicates),
       (SELECT count(*) FROM assay.isolated_records)
