"""The lexer of .pk text for Pygments, which finds it by its entry point: documents and notebooks show `pk` in colours."""
from pygments import lexer, token

# ---- the words of the language, which docs/editors/grammars.py writes
RESERVED = (
    "fn", "return", "static", "require", "grid", "block", "scratch", "alias", "mesh", "vmem_limit", "scoped", "pipeline", "region",
    "prefetch", "let", "var", "when", "if", "else", "for", "while", "break", "in", "true", "false",
)
DTYPES = (
    "bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "bf16", "f16", "f32", "f64", "i4", "u4", "i2", "u2", "f8e4m3fn",
    "f8e5m2", "f8e4m3b11fnuz", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0fnu", "f4e2m1fn",
)
FUNCTIONS = (
    "abs", "accum", "acos", "acosh", "all", "any", "argmax", "argmin", "argsort", "asin", "asinh", "assert", "async_copy", "atan",
    "atan2", "atanh", "barrier", "bitcast", "broadcast", "cast", "cbrt", "cdiv", "ceil", "clamp", "clz", "concatenate", "conv",
    "copysign", "cos", "cosh", "cummax", "cummin", "cumprod", "cumsum", "device", "dot", "dynamic_slice", "dynamic_update_slice",
    "einsum", "erf", "erf_inv", "erfc", "exp", "exp10", "exp2", "expm1", "floor", "floordiv", "fma", "full", "hypot", "integer_pow",
    "iota", "is_finite", "isfinite", "isinf", "isnan", "load", "log", "log10", "log1p", "log2", "log_sigmoid", "logistic", "max", "min",
    "mod", "mulhi", "nextafter", "num_devices", "num_programs", "one_hot", "ones", "pack_elementwise", "pad", "population_count", "pow",
    "print", "program_id", "random_bernoulli", "random_bits", "random_fold_in", "random_key", "random_normal", "random_split",
    "random_uniform", "read", "reciprocal", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum",
    "reduce_xor", "remote_copy", "repeat", "reshape", "rev", "roll", "round", "round_half_away", "rsqrt", "scatter", "scatter_add",
    "select_n", "sigmoid", "sign", "signal", "signbit", "sin", "sinh", "softplus", "sort", "sort_by", "split", "sqrt", "square",
    "squeeze", "stack", "stochastic_round", "store", "sum", "take", "take_along_axis", "tan", "tanh", "tile", "top_k", "transpose",
    "trunc", "unpack_elementwise", "unstack", "view", "wait", "where", "zeros",
)
SYMBOLS = (
    ">>>=", "...", "<<=", ">>=", ">>>", "!=", "%=", "&&", "&=", "*=", "+=", "-=", "->", "..", "/=", "<<", "<=", "==", ">=", ">>", "^=",
    "|=", "||", "!", "%", "&", "(", ")", "*", "+", ",", "-", ".", "/", ":", ";", "<", "=", ">", "[", "]", "^", "{", "|", "}", "~",
)
FLOAT = "[0-9]+(?:[eE][+-]?[0-9]+)|[0-9]+\\.[0-9]+(?:[eE][+-]?[0-9]+)?"
INT = "0[xX][0-9a-fA-F]+|[0-9]+"
ESCAPES = "nrt\\\\\""
CONTEXTS = {
    "kernel": ("packed", "shard"),
    "program": ("packed", "shard"),
    "reference": ("packed", "shard"),
    "grid": ("arbitrary", "parallel"),
    "block": ("any", "at", "buffers", "element", "halo", "of", "pad", "revisit", "slice", "smem", "vmem"),
    "prefetch": ("packed", "shard"),
    "scoped": ("barrier", "dma", "regular", "sem", "smem", "vmem"),
    "pipeline": ("arbitrary", "parallel"),
    "scratch": ("barrier", "dma", "regular", "sem", "smem", "vmem"),
}
FOLLOWERS = {
    "kernel": "[A-Za-z_]",
    "program": "[A-Za-z_]",
    "reference": "[A-Za-z_]",
    "any": ";|buffers\\b|halo\\b|pad\\b|revisit\\b",
    "smem": ";|[A-Za-z_]|\\[|buffers\\b|halo\\b|pad\\b|revisit\\b",
    "vmem": ";|[A-Za-z_]|\\[|buffers\\b|halo\\b|pad\\b|revisit\\b",
    "sem": "barrier\\b|dma\\b|regular\\b",
    "dma": ",|;|\\[|\\{",
    "barrier": ",|;|\\[|\\{",
    "regular": ",|;|\\[|\\{",
    "at": "\\(|element\\b|slice\\b",
    "element": "\\(",
    "slice": "\\(",
    "pad": "!|\"|[0-9]|[A-Za-z_]|\\(|\\-|\\[|\\~|false\\b|true\\b",
    "halo": "!|\"|[0-9]|[A-Za-z_]|\\(|\\-|\\[|\\~|false\\b|true\\b",
    "of": "[A-Za-z_]",
    "buffers": "!|\"|[0-9]|[A-Za-z_]|\\(|\\-|\\[|\\~|false\\b|true\\b",
    "revisit": "any\\b",
    "shard": "\\(",
    "packed": ",|;|\\)|\\[",
    "parallel": ",|\\)",
    "arbitrary": ",|\\)",
}
# ----


def words(given):
    return lexer.words(given, r"\b", r"\b")


def keyword(word):
    """A word where it is a keyword; one that may be a name is, if what follows it fits."""
    return r"\b%s\b(?=\s*(?:%s))" % (word, FOLLOWERS[word]) if word in FOLLOWERS else r"\b%s\b" % word


class PkLexer(lexer.RegexLexer):
    """Text of a .pk file. Words like `pad` are keywords where the compiler reads them so, in declarations, and names elsewhere."""

    name = "pk"
    aliases = ["pk"]
    filenames = ["*.pk"]
    mimetypes = ["text/x-pk"]
    tokens = {
        "root": [
            *((keyword(word), token.Keyword.Declaration, "of " + word) for word in CONTEXTS),
            lexer.include("text"),
        ],
        "text": [
            (r"//.*", token.Comment.Single),
            (r"/\*(?:[^*]|\*(?!/))*\*/", token.Comment.Multiline),
            (r'"(?=(?:[^"\\\n]|\\.)*")', token.String, "string"),
            (r"(\.)(\s*)([A-Za-z_]\w*)", lexer.bygroups(token.Operator, token.Whitespace, token.Name.Attribute)),
            (words(("true", "false")), token.Keyword.Constant),
            (words(RESERVED), token.Keyword),
            (words(DTYPES), token.Keyword.Type),
            (lexer.words(FUNCTIONS, r"\b", r"(?=[ \t]*\()"), token.Name.Builtin),
            (r"[A-Za-z_]\w*(?=[ \t]*\()", token.Name.Function),
            (r"[A-Za-z_]\w*", token.Name),
            (r"(?:%s)(?!\w)" % FLOAT, token.Number.Float),
            (r"(?:%s)(?!\w)" % INT, token.Number.Integer),
            (r"[()\[\]{},;:]", token.Punctuation),
            (lexer.words(SYMBOLS), token.Operator),
            (r"\s+", token.Whitespace),
        ],
        "string": [
            (r"\\[%s]" % ESCAPES, token.String.Escape),
            (r'[^"\\\n]+', token.String),
            (r'"', token.String, "#pop"),
        ],
        **{
            "of " + first: [(r"[;{]", token.Punctuation, "#pop"), *((keyword(word), token.Keyword) for word in special), lexer.include("text")]
            for first, special in CONTEXTS.items()
        },
    }
