"""Why tests of published projects do not pass, in words for a reader of docs/wild.md: (files, what the test said, words), both patterns of re.search.
The first row that fits is taken. What a test said is in docs/wild.json as it was; a cause without a row here is told in those words."""

CAUSES = [
    # JAX
    (r"^ops_test", r"Out of bound slice", "JAX 0.12 itself refuses a slice of the test, which is of an earlier commit"),
    (r"^ops_test", r"a result differs", "compares products to 1e-7, `erf_inv` exactly, or sums of f16"),
    (r"fusible_matmul", r"BF16 x BF16 = F32", "XLA for CPUs has no such product, which the reference asks for"),
    (r"fusible_matmul", r"not with `interpret=True`", "sums by blocks; `interpret=True` does not, and passes"),
    (r"fusible_matmul", r"with `interpret=True` too", "sums by blocks, as `interpret=True`, which differs too"),
    (r"fusible_matmul", r"does not run it", "sums by blocks; `interpret=True` does not run the test"),
    (r"fusible_matmul", r"sums by blocks", "sums by blocks; not run with `interpret=True`"),
    (r"pipeline", r"a result differs", "the sum by blocks is nearer to the exact product than the reference `x @ y` ([each test](pallas-in.md#jaxs-own-tests))"),
    (r"pipeline", r"FailedHealthCheck", "Hypothesis gives the test up, because it rejects most of its own inputs"),
    (r"tpu_ops|triton_pallas", r"NotImplementedError not raised", "expects a TPU's or Triton's refusal of unsigned products"),
    (r"tpu_ops", r"Invalid shape for `swap`|Out of bound slice", "JAX 0.12 itself refuses the kernel, which is of an earlier commit"),
    (r"tpu_ops", r"reaches to index 15", "a constant window past the end of its ref is an error here"),
    (r"tpu_ops", r"a result differs", "compares a product to 1e-7"),
    (r"paged_attention_kernel", r"rounds keys", "the kernel rounds keys and values to bf16, the reference only on a TPU"),
    (r"paged_attention_kernel", r"a result differs", "the kernel rounds keys and values to bf16, the reference only on a TPU"),
    (r"pallas_distributed", r"0 not greater than or equal", "looks for a TPU's words in the text of the program"),
    (r"pallas_distributed|side_effects|memory_space", r"text of the program", "looks for a TPU's words in the text of the program"),
    (r"pallas_distributed", r"a result differs", "a race of the test: it sets an output to zero while a neighbour may be copying to it"),
    (r"pallas_distributed|pallas_state|mpmd", r"semaphore that is not of copies", "a kernel passes a regular semaphore to another kernel"),
    (r"interpret_distributed", r"JaxRuntimeError not raised", "expects an error for an index past the end, which is moved in here, as the code may never run"),
    (r"interpret_distributed", r"races", "asks JAX's interpreter for the races that it found, after the results were equal"),
    (r"mpmd", r"(?i)sparse|num_lanes", "asks for the sparse cores of a TPU"),
    (r"mpmd", r"cannot be imported", "the file is of an earlier commit, and uses what this JAX no longer has"),
    (r"pallas_random", r"a result differs", "compares `normal` with XLA's bit for bit; the largest difference is 3e-6 of a value"),
    (r"pallas_state", r"has length of 0", "looks for a TPU's words in the text of the program"),
    (r"pallas_state", r"Exception not raised", "expects a refusal of JAX's lowering for TPUs"),
    (r"pallas_state", r"a signal to another device", "a signal to another core"),
    (r"pallas_state", r"AbstractLinVal", "pins a buffer of a TPU"),
    (r"pallas_state", r"a result differs", "compares a sum by blocks with `x @ y` to 1e-7"),
    # Helion
    (r"pallas", r"helion\.exc\.BackendUnsupported", "Helion refuses the program for this TPU"),
    # tpu-inference
    (r"csa_gather|sparse_mla", r"SparseCore info is missing", "asks for the sparse cores of a TPU"),
    (r"^rope_test", r"a result differs", "the kernel divides by 448 with correct rounding, XLA multiplies by the reciprocal; compares fp8 bits ([evidence](pallas-in.md#published-kernels))"),
    (r"^mhc_test", r"cannot be imported", "imports vLLM itself"),
    (r"^gmm_test", r"the step of a slice", "a slice of a ref with a negative step"),
    (r"quantized_matmul", r"float4_e2m1fn", "an operand of float4"),
    (r"kv_writeback", r"has no slot|no slot to wait", "an assertion of JAX's own pipeline fails; in `InterpretParams` too"),
]
