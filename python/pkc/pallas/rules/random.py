"""Random numbers: keys of jax.random, and the generator with a state that TPUs have."""
import functools

import numpy

from pkc.pallas.rules.arrays import made
from pkc.pallas.rules.control import as_function, traced
from pkc.pallas.values import Value, is_key, shape_text


def _implementation(tr, atom):
    """The name of a key's generator: threefry2x32, or another whose functions are traced."""
    implementation = atom.aval.dtype._impl
    if implementation.name == "threefry2x32":
        return None
    if implementation.name in ("pallas_tpu", "_pallas_internal_stateful"):
        return implementation
    return tr.refuse("random numbers of the generator `%s`" % implementation.name,
                     "Use keys of jax.random.key(seed, impl=\"threefry2x32\") or of pltpu.to_pallas_key.")


def key_value(text, reads=False):
    return Value(text, (2,), "u32", reads=reads)


def _seed(tr, equation):
    own = _implementation(tr, equation.outvars[0])
    if equation.invars[0].aval.shape:
        tr.refuse("keys of an array of seeds", "Make one key, and fold the numbers in.")
    if own:
        return traced(tr, own.seed, equation.invars)
    seed = tr.read(equation.invars[0])
    return key_value("random_key(%s)" % seed.typed, seed.reads)


def _wrap(tr, equation):
    _implementation(tr, equation.outvars[0])
    return tr.read(equation.invars[0])


def _unwrap(tr, equation):
    return tr.read(equation.invars[0])


def _bits(tr, equation):
    own, p = _implementation(tr, equation.invars[0]), equation.params
    if equation.invars[0].aval.shape:
        tr.refuse("`random_bits` of several keys", "Draw with one key at a time.")
    if own:
        value, = traced(tr, functools.partial(own.random_bits, bit_width=p["bit_width"], shape=p["shape"]), equation.invars)
        return made(tr, equation, "bitcast(%s, %s)" % (value.typed, tr.dtype(equation.outvars[0])), [value])
    key = tr.read(equation.invars[0])
    return made(tr, equation, "random_bits(%s, %s, dtype = u%d)" % (key.text, shape_text(p["shape"]), p["bit_width"]), [key])


def _fold_in(tr, equation):
    own = _implementation(tr, equation.invars[0])
    if own:
        return traced(tr, own.fold_in, equation.invars)
    key, data = [tr.read(atom) for atom in equation.invars]
    return key_value("random_fold_in(%s, %s)" % (key.text, data.typed), key.reads or data.reads)


def _split(tr, equation):
    shape = equation.params["shape"]
    if _implementation(tr, equation.invars[0]):
        tr.refuse("`random_split` of a key of pltpu", "Use jax.random.fold_in.")
    if len(shape) != 1:
        tr.refuse("`random_split` into keys of shape %s" % (tuple(shape),), "Split into a row of keys.")
    key = tr.read(equation.invars[0])
    return Value("random_split(%s, %d)" % (key.text, shape[0]), (shape[0], 2), "u32", reads=key.reads)


def _hash(k0, k1, x0, x1):
    """Threefry of two words, in 20 rounds."""
    keys = [k0, k1, k0 ^ k1 ^ numpy.uint32(0x1BD11BDA)]
    x0, x1 = x0 + k0, x1 + k1
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x0 = x0 + x1
            x1 = x0 ^ (x1 << numpy.uint32(turn) | x1 >> numpy.uint32(32 - turn))
        x0, x1 = x0 + keys[(group + 1) % 3], x1 + keys[(group + 2) % 3] + numpy.uint32(group + 1)
    return x0, x1


# ---- the generator with a state: a key of threefry, and how many draws were made of it

class State:
    """Names of the scratch that holds the state. `seeded`: every step seeds before it draws."""

    def __init__(self, tr):
        self.key, self.draws = tr.writer.name("prng_key"), tr.writer.name("prng_draws")
        self.seeded = False
        tr.hoisted += ["%s: vmem u32[2]" % self.key, "%s: smem u32[1]" % self.draws]

    def first(self):
        """Statements that initialise a state without a seed."""
        return ["%s[...] = zeros([2], u32);" % self.key, "%s[0] = cast(0, u32);" % self.draws]


def _state(tr, seeds=False):
    if tr.prng is None:
        tr.prng = State(tr)
        tr.prng.seeded = seeds and tr.writer.indent == 1
    return tr.prng


def _prng_seed(tr, equation):
    parts = []
    for atom in equation.invars:
        value = tr.read(atom)
        if is_key(atom.aval.dtype):
            value = tr.held(value)
            parts += ["%s[0, %d]" % (value.text, k) for k in range(value.shape[-1])]
        else:
            parts.append(value.typed)
    key = "random_key(%s)" % parts[0]
    for part in parts[1:]:
        key = "random_fold_in(%s, %s)" % (key, part)
    state = _state(tr, seeds=True)
    tr.writer.effect("%s[...] = %s;" % (state.key, key))
    tr.writer.effect("%s[0] = cast(0, u32);" % state.draws)
    return []


def _prng_random_bits(tr, equation):
    state = _state(tr)
    key = "random_fold_in(%s[...], %s[0])" % (state.key, state.draws)
    value = made(tr, equation, "bitcast(random_bits(%s, %s), i32)" % (key, shape_text(equation.params["shape"])), [])
    tr.writer.flush()
    tr.writer.let(value, "bits")
    tr.writer.effect("%s[0] += 1;" % state.draws)
    return value


def _key_parts(tr, equation):
    key = tr.held(tr.read(equation.invars[0]))
    return [Value("%s[0, %d]" % (key.text, k), (), "u32") for k in range(len(equation.outvars))]


def _key_of_parts(tr, equation):
    parts = [tr.read(atom) for atom in equation.invars]
    return made(tr, equation, "reshape(stack(%s), %s)" % (", ".join(v.typed for v in parts), shape_text((1, len(parts)))), parts)


RULES = {
    "random_seed": _seed,
    "random_wrap": _wrap,
    "random_unwrap": _unwrap,
    "random_bits": _bits,
    "random_fold_in": _fold_in,
    "random_split": _split,
    "threefry2x32": as_function(_hash),
    "prng_seed": _prng_seed,
    "prng_random_bits": _prng_random_bits,
    "prng_split": _key_parts,
    "prng_join": _key_of_parts,
}
