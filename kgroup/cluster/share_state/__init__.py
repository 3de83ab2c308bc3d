"""Reading ``__share_group_state``: what became of the records of a share group, as far as its log has it."""
