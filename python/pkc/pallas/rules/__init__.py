"""What each primitive becomes: a table of one row a primitive, in six files."""
from pkc.pallas.rules import arrays, control, copies, elementwise, memory, random

RULES = {**elementwise.RULES, **arrays.RULES, **memory.RULES, **control.RULES, **copies.RULES, **random.RULES}
