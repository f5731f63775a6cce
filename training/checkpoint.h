// A run that can be stopped at any step and resumed with the same bits: all of it in one file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include <sinter/layers/module.h>
#include <sinter/layers/safetensors.h>
#include <sinter/runtime/error.h>
#include <sinter/training/state.h>

namespace sinter {

/// A loss or a weight that is not finite.
class NonFiniteError : public Error {
 public:
  using Error::Error;
};

/// The parts of a run beside its model, by names without a dot: {{"optimizer", &optimizer},
/// {"position", &position}}.
using CheckpointParts = std::map<std::string, Stateful*>;

/// Writes the model's parameters and buffers ("model.0.weight"), its generators, which parameters
/// are trained, and the state of the parts ("optimizer.steps") as one safetensors file,
/// little-endian, with a checksum. It is written as DurableFile does: whatever happens, `path` is
/// there as a whole. Gradients are left out, so it belongs between two steps. With `path` as it
/// was, throws NonFiniteError for weights or buffers that are not finite, and Error where the file
/// cannot be written or a part's number is outside of its range.
void save_checkpoint(const std::filesystem::path& path, Module& model,
                     const CheckpointParts& parts);

/// What save_checkpoint() writes, as copies on the CPU: write_safetensors() may take its time for
/// it while training goes on. Throws for the model and its parts what save_checkpoint() does,
/// beginning with `what`.
TensorFile checkpoint_of(Module& model, const CheckpointParts& parts,
                         const std::string& what = "checkpoint");

/// Reads it back into a model and parts of the same kind, on any device; gradients are dropped.
/// Throws Error, and changes nothing, for a file that is damaged, from a newer version, for
/// another model, with weights that are not finite, or for parts that are others or set otherwise.
/// Rates, counts and which parameters are trained are those of the file.
void load_checkpoint(const std::filesystem::path& path, Module& model,
                     const CheckpointParts& parts);

/// What the best checkpoint is chosen by.
enum class BestBy : std::uint8_t { none, loss, accuracy };

/// When Trainer::fit writes checkpoints, and what it does with them.
struct CheckpointOptions {
  std::filesystem::path path;     ///< of the newest one
  std::int64_t every_epochs = 1;  ///< 0: after the last one only
  std::int64_t every_steps = 0;   ///< of each epoch; 0: not within epochs
  /// So many are kept: "run.safetensors" is the newest, "run.1.safetensors" the one before it.
  std::int64_t keep = 1;
  /// Of the epochs whose validation was better than any before, the last one's is
  /// "run.best.safetensors".
  BestBy best = BestBy::none;
  /// SIGINT (Ctrl-C) or SIGTERM ends the run with a checkpoint after the step, or the graph of
  /// steps, under way; EpochReport::stopped_by says so. A second one does what it did before.
  bool on_signal = true;
  /// So many times, a loss that is not finite does not end the run: it goes back to the last
  /// checkpoint, and on with the learning rate times roll_back_factor.
  std::int64_t roll_backs = 0;
  double roll_back_factor = 0.5;
};

}  // namespace sinter
