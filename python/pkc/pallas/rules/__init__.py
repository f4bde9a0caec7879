"""What each primitive becomes: a table of one row a primitive, in eight files."""
from pkc.pallas.rules import arrays, control, copies, devices, elementwise, memory, pipelines, random

RULES = {**elementwise.RULES, **arrays.RULES, **memory.RULES, **control.RULES, **copies.RULES, **pipelines.RULES,
         **devices.RULES, **random.RULES}
