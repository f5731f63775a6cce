#include <algorithm>
#include <cstdio>
#include <unistd.h>
#include <utility>

#include <sinter/training/progress.h>

namespace sinter {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int width = 24;

}  // namespace

ProgressBar::ProgressBar(std::string title, std::int64_t total, bool on)
    : title_(std::move(title)),
      total_(total),
      on_(on && ::isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      drawn_(start_) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::clear() {
  if (on_) {
    std::fputs("\r\x1b[K", stderr);
  }
}

void ProgressBar::update(std::int64_t done, double loss) {
  const auto now = Clock::now();
  if (!on_ || now - drawn_ < std::chrono::milliseconds(100)) {
    return;
  }
  drawn_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(done) / seconds;
  const double share =
      static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(total_, 1));
  const int filled = static_cast<int>(width * std::clamp(share, 0.0, 1.0));
  std::string bar(static_cast<std::size_t>(width), ' ');
  std::fill_n(bar.begin(), filled, '=');
  std::fprintf(stderr, "\r\x1b[K%s [%s] %lld/%lld  loss %.4f  %.0f items/s  ETA %.1f s",
               title_.c_str(), bar.c_str(), static_cast<long long>(done),
               static_cast<long long>(total_), loss, rate,
               static_cast<double>(total_ - done) / rate);
}

}  // namespace sinter
