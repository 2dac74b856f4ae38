"""The contract: what the programs of Windvane say to each other, and nothing else.

Pure: no I/O, no clock, no dice. The agent, the bridge and the processor never
import each other; they meet here. `DESIGN.md` beside this file tells why the
contract looks as it does.
"""
