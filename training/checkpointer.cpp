#include <cmath>
#include <exception>
#include <limits>
#include <system_error>
#include <utility>

#include <sinter/layers/safetensors.h>
#include <sinter/runtime/durable_file.h>
#include <sinter/runtime/log.h>
#include <sinter/runtime/paths.h>
#include <sinter/training/checkpointer.h>

namespace sinter {

Checkpointer::Checkpointer(const std::optional<CheckpointOptions>& options, Module& model,
                           const Optimizer& optimizer, CheckpointParts parts)
    : options_(options ? &*options : nullptr),
      model_(model),
      optimizer_(optimizer),
      parts_(std::move(parts)) {
  if (options_ == nullptr) {
    return;
  }
  check(!options->path.empty(), "Trainer::fit: checkpoint.path is empty");
  for (const std::int64_t count :
       {options->every_epochs, options->every_steps, options->roll_backs}) {
    check(count >= 0,
          "Trainer::fit: checkpoint.every_epochs, every_steps and roll_backs must be at least 0, "
          "got ",
          count);
  }
  check(options->keep >= 1, "Trainer::fit: checkpoint.keep must be at least 1, got ",
        options->keep);
  check(options->roll_back_factor > 0 && options->roll_back_factor <= 1,
        "Trainer::fit: checkpoint.roll_back_factor must lie in (0, 1], got ",
        options->roll_back_factor);
  path_ = followed_path(options->path);
  {
    const DurableFile can_be_made(path_);  // or it is said before hours of training
  }
  if (options->on_signal) {
    signals_.emplace();
  }
}

void Checkpointer::resume(const std::filesystem::path& path) {
  load_checkpoint(path, model_, parts_);
  last_ = full_path(path);
  step_of_last_ = optimizer_.steps();
}

bool Checkpointer::is_due(std::int64_t batch) const {
  return options_ != nullptr && options_->every_steps > 0 && batch % options_->every_steps == 0;
}

std::int64_t Checkpointer::steps_to_next(std::int64_t batch) const {
  return options_ != nullptr && options_->every_steps > 0
             ? options_->every_steps - batch % options_->every_steps
             : std::numeric_limits<std::int64_t>::max();
}

bool Checkpointer::is_due_after(std::int64_t epoch) const {
  return options_ != nullptr && options_->every_epochs > 0 && epoch % options_->every_epochs == 0;
}

std::filesystem::path Checkpointer::beside(const std::string& word) const {
  const std::string name = path_.stem().string() + "." + word + path_.extension().string();
  return path_.parent_path() / name;
}

// The newest becomes number 1 as well, number 1 number 2, and so on; at any moment there is one of
// each name. Where a save came to nothing after this, it is done already.
void Checkpointer::make_room() const {
  std::error_code failure;
  if (options_->keep == 1 || !std::filesystem::exists(path_, failure) ||
      std::filesystem::equivalent(path_, beside("1"), failure)) {
    return;
  }
  for (std::int64_t k = options_->keep - 1; k > 1; --k) {
    const auto from = beside(std::to_string(k - 1)), to = beside(std::to_string(k));
    if (std::filesystem::exists(from, failure)) {
      std::filesystem::rename(from, to, failure);
      check(!failure, "cannot rename ", from.string(), " to ", to.string(), ": ",
            failure.message());
    }
  }
  link_durably(path_, beside("1"));
}

void Checkpointer::write(const TensorFile& file, bool is_best) const {
  const FolderLock alone(path_.parent_path());  // with the names, which others may write to
  // The best one first: a run that is killed in between finds the same epoch the best once more.
  const std::filesystem::path best = beside("best");
  if (is_best) {
    write_safetensors(best, file);
  }
  make_room();
  if (is_best) {
    link_durably(best, path_);
  } else {
    write_safetensors(path_, file);
  }
}

void Checkpointer::save(bool is_best) {
  if (options_ == nullptr) {
    return;
  }
  finish();
  writing_ =
      std::async(std::launch::async,
                 [this, is_best,
                  file = checkpoint_of(model_, parts_,
                                       "cannot write checkpoint " + path_.string())]() mutable {
                   const TensorFile mine = std::move(file);  // gone as soon as it is written
                   write(mine, is_best);
                 });
  last_ = path_;
  step_of_last_ = optimizer_.steps();
  factor_ = 1;
}

void Checkpointer::finish() {
  if (writing_.valid()) {
    writing_.get();
  }
}

Checkpointer::~Checkpointer() {
  try {
    finish();
  } catch (const std::exception& error) {  // the run ends with another error already
    log::warn(error.what());
  }
}

double Checkpointer::roll_back(const NonFiniteError& error, std::int64_t roll_backs_so_far) {
  try {
    finish();
  } catch (const Error& of_write) {
    throw NonFiniteError(text(error.what(), "; and ", of_write.what()));
  }
  const std::string good = text(last_.string(), ", of step ", step_of_last_);
  if (options_ == nullptr || last_.empty() || roll_backs_so_far >= options_->roll_backs) {
    throw NonFiniteError(last_.empty()
                             ? std::string(error.what())
                             : text(error.what(), "; the last good checkpoint is ", good));
  }
  load_checkpoint(last_, model_, parts_);
  factor_ *= options_->roll_back_factor;
  log::warn(text(error.what(), "; went back to checkpoint ", good, ", and on with ", factor_,
                 " times its learning rate (", roll_backs_so_far + 1, " of ", options_->roll_backs,
                 ")"));
  return factor_;
}

}  // namespace sinter
