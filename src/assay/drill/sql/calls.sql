-- The ledger of calls; the key is the one that the vendor was given.
SELECT concat_ws('.', attempt_id, task_id, pass_number), pass_number, outcome, code
FROM assay.calls ORDER BY call_id
