"""The store of a stopped nats-server: every record is checked before the server starts.

A damaged block makes nats-server cut its stream short and count as current all the same; once it is elected,
the others follow it (ADR 52). `check` finds such damage, `set_aside` moves a damaged store away, so that the
server starts empty and copies everything from the other two.

    highway      HighwayHash-64 of many records at once           pure
    records      records of one block file, and what is wrong      pure
    behind       whether a valid record follows a wrong one         pure
    stores       which file stores a directory has
    check        all blocks of all stores
    set_aside    the other servers, and the rename
"""
