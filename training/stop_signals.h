// Ctrl-C and SIGTERM as a wish that a run can look at. Internal to the Trainer.
#pragma once

namespace sinter {

/// While one of these lives, the first SIGINT or SIGTERM is noted and nothing else; the next one
/// does what it did before, as do all after this went. A signal that the process ignores stays
/// ignored.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that came, or 0.
  static int received();
};

}  // namespace sinter
