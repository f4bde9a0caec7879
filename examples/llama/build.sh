#!/bin/sh
# Compiles the kernels and the program for one model, and prints the program's path: build.sh BUILD FOLDER WEIGHTS [ACTIVATIONS]
# The statics of the model give the folder in BUILD, so models of one shape share a program. CC and CFLAGS are those of make.
set -eu
build=$1 model=$2 weights=$3 activations=${4:-f32}
cd "$(dirname "$0")/../.."
case $weights in
  f32) types='-D W=f32 -D KV=f32' ;;
  bf16 | i8) types="-D W=$weights -D KV=f16" ;;
  i4) types='-D W=u8 -D SC=f16 -D KV=f16' ;;
  *) echo "llama: WEIGHTS is $weights: expected f32, bf16, i8 or i4" >&2; exit 1 ;;
esac
case $activations,$weights in
  f32,*) ;;
  i8,i8 | i8,i4 | bf16,bf16) types="$types -D ROUND=true" ;;
  *) echo "llama: ACTIVATIONS is $activations: expected f32, i8 with WEIGHTS=i8 or i4, or bf16 with WEIGHTS=bf16" >&2; exit 1 ;;
esac
statics=$("$build/llama/statics" "$model")
to=$build/llama/$weights-$activations-$(printf %s "$statics" | cksum | cut -d ' ' -f 1)
flags="-std=c11 -O2 -march=native -ffp-contract=off -pthread ${CFLAGS:-} -Iinclude -I$to -Iexamples/common -Iexamples/llama"
mkdir -p "$to"
if [ -x "$to/llama" ] && [ -z "$(find "$build/pkc" "$build/libpkrt.a" examples/llama examples/common include/pk kernels -type f -newer "$to/llama")" ]; then
  echo "$to/llama"
  exit
fi
cat kernels/embedding.pk kernels/rmsnorm.pk kernels/norm_residual.pk kernels/glu.pk kernels/rope.pk kernels/matmul/linear.pk \
  kernels/matmul/weights.pk kernels/matmul/by_q8.pk kernels/quantise.pk kernels/attention/decode.pk kernels/attention/options.pk examples/llama/llama.pk >"$to/llama.pk"

# part NAME FILE KERNEL OPTIONS FLAGS
part() {
  "$build/pkc" "$2" -k "$3" $4 -o "$to/$1.c"
  ${CC:-cc} $flags $5 -c "$to/$1.c" -o "$to/$1.o"
}
part next "$to/llama.pk" llama "$statics $types -D DECODE=true" '-Dllama=llama_next -Dllama_kernel=llama_next_kernel' &
next=$!
part prompt "$to/llama.pk" llama "$statics $types" '-Dllama=llama_prompt -Dllama_kernel=llama_prompt_kernel'
part narrow "$to/llama.pk" narrow '' ''
part rows kernels/quantise.pk quantise_rows '' ''
part groups kernels/quantise.pk quantise_groups '-D S=f16' ''
part sampling kernels/sampling.pk sampling '' ''
wait $next
${CC:-cc} $flags -Wall -Wextra -Wconversion -Wshadow -Werror -DLLAMA_STATICS="\"$statics\"" -DLLAMA_WEIGHTS="\"$weights\"" -DLLAMA_ACTIVATIONS="\"$activations\"" \
  $(ls examples/llama/*.c | grep -v statics.c) examples/common/*.c "$to"/*.o "$build/libpkrt.a" -lm -o "$to/llama"
echo "$to/llama"
