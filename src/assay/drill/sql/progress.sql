-- How far the workers and the publisher are, for the line of progress and for the end.
SELECT (SELECT count(*) FROM assay.inputs)
           + (SELECT count(*) FROM assay.source_duplicates) + (SELECT count(*) FROM assay.isolated_records),
       (SELECT count(*) FROM assay.annotation_tasks WHERE state NOT IN ('processing', 'retry_scheduled')),
       (SELECT count(*) FROM assay.annotation_tasks WHERE state IN ('processing', 'retry_scheduled')),
       (SELECT count(*) FROM assay.calls WHERE pass_number = 1 AND outcome IN ('accepted', 'rejected')),
       (SELECT count(*) FROM assay.calls WHERE pass_number = 1 AND outcome = 'rejected'),
       (SELECT count(*) FROM assay.known_events), (SELECT count(*) FROM assay.outbox_events)
