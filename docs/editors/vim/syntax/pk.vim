" Written by docs/editors/grammars.py from the tables of the compiler.
if exists("b:current_syntax")
  finish
endif
syntax case match
syntax sync fromstart
syntax cluster pkText contains=pkKeyword,pkBoolean,pkType,pkBuiltin,pkFunction,pkNumber,pkString,pkComment,pkOperator
syntax keyword pkKeyword fn return static require alias mesh vmem_limit region let var when if else for while break in
syntax keyword pkBoolean true false
syntax keyword pkType bool i8 u8 i16 u16 i32 u32 i64 u64 bf16 f16 f32 f64 i4 u4 i2 u2 f8e4m3fn f8e5m2 f8e4m3b11fnuz f8e4m3fnuz f8e5m2fnuz f8e8m0fnu f4e2m1fn
syntax match pkKeyword /\v<%(grid|block|scratch|scoped|pipeline|prefetch)>/
syntax match pkOperator @[-!%&*+./<=>^|~]@
syntax match pkFunction /\v<[A-Za-z_]\w*>%(\s*\()@=/
syntax match pkBuiltin /\v<%(abs|accum|acos|acosh|all|any|argmax|argmin|argsort|asin|asinh|assert|async_copy|atan|atan2|atanh|barrier|bitcast|broadcast|cast|cbrt|cdiv|ceil|clamp|clz|concatenate|conv|copysign|cos|cosh|cummax|cummin|cumprod|cumsum|device|dot|dynamic_slice|dynamic_update_slice|einsum|erf|erf_inv|erfc|exp|exp10|exp2|expm1|floor|floordiv|fma|full|hypot|integer_pow|iota|is_finite|isfinite|isinf|isnan|load|log|log10|log1p|log2|log_sigmoid|logistic|max|min|mod|mulhi|nextafter|num_devices|num_programs|one_hot|ones|pack_elementwise|pad|population_count|pow|print|program_id|random_bernoulli|random_bits|random_fold_in|random_key|random_normal|random_split|random_uniform|read|reciprocal|reduce_and|reduce_max|reduce_min|reduce_or|reduce_prod|reduce_sum|reduce_xor|remote_copy|repeat|reshape|rev|roll|round|round_half_away|rsqrt|scatter|scatter_add|select_n|sigmoid|sign|signal|signbit|sin|sinh|softplus|sort|sort_by|split|sqrt|square|squeeze|stack|stochastic_round|store|sum|take|take_along_axis|tan|tanh|tile|top_k|transpose|trunc|unpack_elementwise|unstack|view|wait|where|zeros)>%(\s*\()@=/
syntax match pkNumber /\v<%([0-9]+%([eE][+-]?[0-9]+)|[0-9]+\.[0-9]+%([eE][+-]?[0-9]+)?|0[xX][0-9a-fA-F]+|[0-9]+)>/
syntax match pkEscape /\\[nrt\\"]/ contained
syntax match pkString /"\%([^"\\]\|\\.\)*"/ contains=pkEscape
syntax match pkComment +//.*+ contains=@Spell
syntax region pkComment start=+/\*+ end=+\*/+ contains=@Spell
syntax match pkKernelKeyword /\v<%(packed>%(\_s*%(,|;|\)|\[))@=|shard>%(\_s*%(\())@=)/ contained
syntax region pkOfKernel matchgroup=pkKeyword start=/\v<kernel>%(\_s*%([A-Za-z_]))@=/ matchgroup=NONE end=/[;{]/ contains=@pkText,pkKernelKeyword
highlight default link pkKernelKeyword pkKeyword
syntax match pkProgramKeyword /\v<%(packed>%(\_s*%(,|;|\)|\[))@=|shard>%(\_s*%(\())@=)/ contained
syntax region pkOfProgram matchgroup=pkKeyword start=/\v<program>%(\_s*%([A-Za-z_]))@=/ matchgroup=NONE end=/[;{]/ contains=@pkText,pkProgramKeyword
highlight default link pkProgramKeyword pkKeyword
syntax match pkReferenceKeyword /\v<%(packed>%(\_s*%(,|;|\)|\[))@=|shard>%(\_s*%(\())@=)/ contained
syntax region pkOfReference matchgroup=pkKeyword start=/\v<reference>%(\_s*%([A-Za-z_]))@=/ matchgroup=NONE end=/[;{]/ contains=@pkText,pkReferenceKeyword
highlight default link pkReferenceKeyword pkKeyword
syntax match pkGridKeyword /\v<%(arbitrary>%(\_s*%(,|\)))@=|parallel>%(\_s*%(,|\)))@=)/ contained
syntax region pkOfGrid matchgroup=pkKeyword start=/\v<grid>/ matchgroup=NONE end=/[;{]/ contains=@pkText,pkGridKeyword
highlight default link pkGridKeyword pkKeyword
syntax match pkBlockKeyword /\v<%(any>%(\_s*%(;|buffers>|halo>|pad>|revisit>))@=|at>%(\_s*%(\(|element>|slice>))@=|buffers>%(\_s*%(!|"|[0-9]|[A-Za-z_]|\(|\-|\[|\~|false>|true>))@=|element>%(\_s*%(\())@=|halo>%(\_s*%(!|"|[0-9]|[A-Za-z_]|\(|\-|\[|\~|false>|true>))@=|of>%(\_s*%([A-Za-z_]))@=|pad>%(\_s*%(!|"|[0-9]|[A-Za-z_]|\(|\-|\[|\~|false>|true>))@=|revisit>%(\_s*%(any>))@=|slice>%(\_s*%(\())@=|smem>%(\_s*%(;|[A-Za-z_]|\[|buffers>|halo>|pad>|revisit>))@=|vmem>%(\_s*%(;|[A-Za-z_]|\[|buffers>|halo>|pad>|revisit>))@=)/ contained
syntax region pkOfBlock matchgroup=pkKeyword start=/\v<block>/ matchgroup=NONE end=/[;{]/ contains=@pkText,pkBlockKeyword
highlight default link pkBlockKeyword pkKeyword
syntax match pkPrefetchKeyword /\v<%(packed>%(\_s*%(,|;|\)|\[))@=|shard>%(\_s*%(\())@=)/ contained
syntax region pkOfPrefetch matchgroup=pkKeyword start=/\v<prefetch>/ matchgroup=NONE end=/[;{]/ contains=@pkText,pkPrefetchKeyword
highlight default link pkPrefetchKeyword pkKeyword
syntax match pkScopedKeyword /\v<%(barrier>%(\_s*%(,|;|\[|\{))@=|dma>%(\_s*%(,|;|\[|\{))@=|regular>%(\_s*%(,|;|\[|\{))@=|sem>%(\_s*%(barrier>|dma>|regular>))@=|smem>%(\_s*%(;|[A-Za-z_]|\[|buffers>|halo>|pad>|revisit>))@=|vmem>%(\_s*%(;|[A-Za-z_]|\[|buffers>|halo>|pad>|revisit>))@=)/ contained
syntax region pkOfScoped matchgroup=pkKeyword start=/\v<scoped>/ matchgroup=NONE end=/[;{]/ contains=@pkText,pkScopedKeyword
highlight default link pkScopedKeyword pkKeyword
syntax match pkPipelineKeyword /\v<%(arbitrary>%(\_s*%(,|\)))@=|parallel>%(\_s*%(,|\)))@=)/ contained
syntax region pkOfPipeline matchgroup=pkKeyword start=/\v<pipeline>/ matchgroup=NONE end=/[;{]/ contains=@pkText,pkPipelineKeyword
highlight default link pkPipelineKeyword pkKeyword
syntax match pkScratchKeyword /\v<%(barrier>%(\_s*%(,|;|\[|\{))@=|dma>%(\_s*%(,|;|\[|\{))@=|regular>%(\_s*%(,|;|\[|\{))@=|sem>%(\_s*%(barrier>|dma>|regular>))@=|smem>%(\_s*%(;|[A-Za-z_]|\[|buffers>|halo>|pad>|revisit>))@=|vmem>%(\_s*%(;|[A-Za-z_]|\[|buffers>|halo>|pad>|revisit>))@=)/ contained
syntax region pkOfScratch matchgroup=pkKeyword start=/\v<scratch>/ matchgroup=NONE end=/[;{]/ contains=@pkText,pkScratchKeyword
highlight default link pkScratchKeyword pkKeyword
highlight default link pkKeyword Keyword
highlight default link pkBoolean Boolean
highlight default link pkType Type
highlight default link pkBuiltin Function
highlight default link pkFunction Identifier
highlight default link pkNumber Number
highlight default link pkString String
highlight default link pkEscape SpecialChar
highlight default link pkComment Comment
highlight default link pkOperator Operator
let b:current_syntax = "pk"
