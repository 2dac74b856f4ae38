"""The agent on every GPU node: reads the GPUs, keeps what it read on disk, sends it on.

`DESIGN.md` beside this file tells what it promises and what each failure does.
"""
