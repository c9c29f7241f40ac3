"""Programs that tests start often, forked from processes that have imported them."""
