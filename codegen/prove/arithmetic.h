// The arithmetic of the proof, for the interpreter; its context is a Proof.
#ifndef CODEGEN_PROVE_ARITHMETIC_H
#define CODEGEN_PROVE_ARITHMETIC_H

#include "codegen/prove/numbers.h"

extern const Arithmetic proof_arithmetic;

#endif
