"""The translation of each primitive: a table with one row per primitive, in ten files."""
from pkc.pallas.rules import arrays, control, copies, devices, elementwise, memory, phases, pipelines, random, sparse

RULES = {**elementwise.RULES, **arrays.RULES, **memory.RULES, **control.RULES, **copies.RULES, **pipelines.RULES,
         **devices.RULES, **random.RULES, **sparse.RULES, **phases.RULES}
