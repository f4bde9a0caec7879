"""llama.cpp as the peer of an example: a model in a GGUF file, called for the logits of new tokens. Requires llama_cpp (llama-cpp-python) and gguf."""
import ctypes
import os

import gguf
import llama_cpp
import numpy

KINDS = {"f32": gguf.GGMLQuantizationType.F32, "bf16": gguf.GGMLQuantizationType.BF16, "i8": gguf.GGMLQuantizationType.Q8_0,
         "i4": gguf.GGMLQuantizationType.Q4_0}
SILENT = llama_cpp.llama_log_callback(lambda *_: None)  # llama.cpp keeps the pointer
llama_cpp.llama_log_set(SILENT, ctypes.c_void_p())


def add_matrix(out, name, array, kind):
    """A matrix into a GGUFWriter, in the format that corresponds to WEIGHTS=`kind`."""
    out.add_tensor(name, gguf.quants.quantize(numpy.ascontiguousarray(array), KINDS[kind]), raw_dtype=KINDS[kind])


def finish(out):
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


class Llama:
    """`batch` sequences of at most `positions` tokens; one call reads at most `prompt` of each. Keys and values are f16, or f32 with `wide`."""

    def __init__(self, path, batch, positions, prompt, tokens, threads, wide=False):
        self.tokens, settings = tokens, llama_cpp.llama_context_default_params()
        self.model = llama_cpp.llama_model_load_from_file(os.fsencode(path), llama_cpp.llama_model_default_params())
        if not self.model:
            raise SystemExit("llama.cpp refuses the file")
        settings.n_ctx, settings.n_batch, settings.n_ubatch, settings.n_seq_max = batch * positions, batch * prompt, prompt, batch
        settings.n_threads = settings.n_threads_batch = threads
        if wide:
            settings.type_k = settings.type_v = int(gguf.GGMLQuantizationType.F32)
        self.context = llama_cpp.llama_init_from_model(self.model, settings)
        if not self.context:
            raise SystemExit("llama.cpp refuses the model")
        self.batch = llama_cpp.llama_batch_init(batch * prompt, 0, 1)

    def next(self, token, at):
        """The logits of each sequence's last token. Positions from `at` on are removed from the cache first."""
        batch, count = token.shape
        memory = llama_cpp.llama_get_memory(self.context)
        for b in range(batch):
            llama_cpp.llama_memory_seq_rm(memory, b, at, -1)
            for t in range(count):
                i = b * count + t
                self.batch.token[i], self.batch.pos[i], self.batch.n_seq_id[i] = int(token[b, t]), at + t, 1
                self.batch.seq_id[i][0], self.batch.logits[i] = b, t == count - 1
        self.batch.n_tokens = batch * count
        if llama_cpp.llama_decode(self.context, self.batch):
            raise SystemExit("llama_decode failed")
        rows = [llama_cpp.llama_get_logits_ith(self.context, b * count + count - 1) for b in range(batch)]
        return numpy.stack([numpy.ctypeslib.as_array(row, (self.tokens,)) for row in rows])

    def close(self):
        llama_cpp.llama_batch_free(self.batch)
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)
