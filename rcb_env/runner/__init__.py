"""The program that runs inside a box. Standard library only; `case_run` also uses numpy and `rcb_env.cases`.

    main.py      the loop: reads requests from the host, has a test run made, cleans up after it
    watch.py     one test run from its start to its end: limits, output, how it ended
    folders.py   where a run may write: what it gets, what it made, how that is removed
    namespaces.py what a box has for itself alone: users, folders, and a network for every run
    processes.py what the kernel tells of processes: which live
    memory.py    what memory a run holds, of whatever kind
    zygote.py    processes that have imported the heavy packages once; every test run is a fork of one
    confine.py   what a process does to itself: limits, and not being readable by its siblings
    case_run.py  what a test run executes: cases on one side, the judge's comparison on the other
    suite_run.py what a test run of a public folder executes: its unittest suite
    official_run.py  the same suite as the public harness runs it: a script, and its exit code
    split_run.py the same in two boxes: what the suite compares is sent out; operands.py: as what
    open_run.py  what a run of an open challenge executes: the submission on one side, the judge on the other
    conversation.py  a run that says things to the host while it lasts, and is answered
    wire.py      length-prefixed messages, used by both ends of the stream

The host sends the sources of these modules over the stream when a box starts (`sandbox/box.py`), so an image needs only
a Python and the paper's third-party packages, and never has to be rebuilt for a change here.
"""
