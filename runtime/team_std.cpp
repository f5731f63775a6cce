#include <thread>
#include <vector>

#include <sinter/runtime/team.h>

namespace sinter::detail {
namespace {

thread_local bool in_team = false;

}  // namespace

void run_team(int threads, std::int64_t pieces, void (*body)(void*, std::int64_t), void* context) {
  const auto run_share = [=](std::int64_t share) {
    in_team = true;
    const std::int64_t end = pieces * (share + 1) / threads;
    for (std::int64_t piece = pieces * share / threads; piece < end; ++piece) {
      body(context, piece);
    }
    in_team = false;
  };
  std::vector<std::jthread> others;
  for (int share = 1; share < threads; ++share) {
    others.emplace_back(run_share, share);
  }
  run_share(0);
}

bool is_in_team() { return in_team; }

}  // namespace sinter::detail
