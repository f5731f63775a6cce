// Shared by the files of this folder, which are compiled once for each instruction set with
// SINTER_CPU_PATH naming the copy. A function that two copies had under one name would be merged by
// the linker, and a processor might run the wrong one; so everything here lives in the copy's own
// namespace or is inlined. No container or algorithm of the standard library is used.
#pragma once

#include <cstdint>

#include <sinter/kernels/cpu/kernels.h>

namespace sinter::cpu::SINTER_CPU_PATH {

template <class T>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          const T* a, std::int64_t lda, const T* b, std::int64_t ldb, bool accumulate, T* c,
          std::int64_t ldc);

/// Fills table.activations.
template <class T>
void set_activations(Kernels<T>& table);
/// Fills the rest of the table but gemm.
template <class T>
void set_passes(Kernels<T>& table);

}  // namespace sinter::cpu::SINTER_CPU_PATH
