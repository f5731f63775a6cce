// How far a call of Trainer::fit is. Internal to the Trainer.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinter/training/epoch_run.h>
#include <sinter/training/state.h>
#include <sinter/training/trainer.h>

namespace sinter {

struct FitState : Stateful {
  FitState(const FitOptions& options, const DataLoader& loader, std::int64_t items);

  std::string setting;              ///< without which the position means nothing
  std::int64_t epochs = 0;          ///< in all
  std::int64_t batches = 0;         ///< of an epoch
  bool seed_is_given = false;       ///< then a checkpoint must have that one
  std::uint64_t seed = 0;           ///< of the shuffling
  std::int64_t epochs_before = 0;   ///< of earlier calls of fit
  std::int64_t epoch = 0;           ///< epochs done
  std::int64_t batch = 0;           ///< batches done of the one under way
  double base_lr = 0;               ///< what a schedule's factor is for
  EpochSums sums;                   ///< of the epoch under way
  double seconds = 0;               ///< that it has taken
  std::int64_t skipped_before = 0;  ///< by the scaler, before it
  double best = HUGE_VAL;           ///< validation so far, the smaller the better
  std::int64_t roll_backs = 0;
  std::vector<EpochReport> reports;

  /// After an epoch: whether its validation is the best so far.
  bool note_best(BestBy by);
  std::string text() const override { return setting; }
  void visit_state(StateVisitor& visitor) override;
};

}  // namespace sinter
