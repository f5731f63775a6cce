#include <cmath>
#include <numbers>

#include <sinter/runtime/error.h>
#include <sinter/training/schedules.h>

namespace sinter {

Schedule cosine(double warmup, double final) {
  check(warmup >= 0 && warmup < 1, "cosine: warmup must lie in [0, 1), got ", warmup);
  check(std::isfinite(final) && final >= 0, "cosine: final must be finite and at least 0, got ",
        final);
  return [warmup, final](double progress) {
    if (progress < warmup) {
      return progress / warmup;
    }
    const double fallen = (progress - warmup) / (1 - warmup);
    return final + (1 - final) * (1 + std::cos(std::numbers::pi * fallen)) / 2;
  };
}

}  // namespace sinter
