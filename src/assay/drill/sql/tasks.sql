-- Each annotation: where it stands, its label, the call whose answer that is, how often it was finished.
SELECT t.task_id, t.record_id, t.state::text, t.error_code, o.label_json ->> 'category', c.request_id,
       (SELECT count(*) FROM assay.task_history h
        WHERE h.task_id = t.task_id AND h.move IN ('accept', 'refer', 'observe', 'dead_letter', 'give_up')),
       (SELECT count(*) FROM assay.results r WHERE r.record_id = t.record_id AND r.task_id = t.task_id)
FROM assay.annotation_tasks t
LEFT JOIN assay.annotation_outputs o USING (task_id)
LEFT JOIN LATERAL (
    SELECT c.request_id FROM assay.calls c
    WHERE c.task_id = t.task_id AND c.outcome = 'accepted' ORDER BY c.call_id DESC LIMIT 1
) AS c ON true
ORDER BY t.task_id
