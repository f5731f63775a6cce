// The line that moves while an epoch runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace sinter {

/// Draws "epoch 2/5 [=====>    ] 31200/60000  loss 0.412  24400 items/s  ETA 1.2 s" on standard
/// error, at most ten times a second, and only where that is a terminal.
class ProgressBar {
 public:
  ProgressBar(std::string title, std::int64_t total, bool on);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::int64_t done, double loss);
  /// Makes the line empty, for what is printed next.
  void clear();

 private:
  std::string title_;
  std::int64_t total_;
  bool on_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace sinter
