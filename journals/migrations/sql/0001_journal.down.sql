DROP FUNCTION journal_append, journals_keep_payloads, journals_link, journals_make_partitions;
DROP TABLE journals_gate, journals_token, journals_node, journals_payload, journals_entry, journals_head, journals_source;
DROP FUNCTION journals_refuse_change;
