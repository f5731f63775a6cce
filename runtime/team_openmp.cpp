#include <omp.h>

#include <sinter/runtime/team.h>

namespace sinter::detail {

void run_team(int threads, std::int64_t pieces, void (*body)(void*, std::int64_t), void* context) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    body(context, piece);
  }
}

bool is_in_team() { return omp_in_parallel() != 0; }

}  // namespace sinter::detail
