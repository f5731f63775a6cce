// A run that is killed, at moments that nobody chose, inside of saves too, and resumed each time.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "../cuda.h"
#include "checkpoint_run.h"
#include "data_files.h"

using namespace sinter;
using namespace sinter::testing;

extern char** environ;  // NOLINT

namespace {

constexpr const char* folder_variable = "SINTER_TEST_KILL_FOLDER";
constexpr const char* device_variable = "SINTER_TEST_KILL_DEVICE";

// 100 steps; with a checkpoint after each, most of the time goes into saving.
FitOptions options_for(const TensorDataset& data) {
  return {.epochs = 20,
          .batch_size = 16,
          .validation = &data,
          .schedule = cosine(0.1),
          .progress = false};
}

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void wait_for(const std::filesystem::path& path) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!std::filesystem::exists(path)) {
    REQUIRE(std::chrono::steady_clock::now() < until);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

::pid_t start_child() {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const char* const arguments[] = {self.c_str(), "--no-skip", "--test-case=child of the kill test",
                                   "--minimal", nullptr};
  ::pid_t child = 0;
  REQUIRE(::posix_spawn(&child, self.c_str(), nullptr, nullptr, const_cast<char* const*>(arguments),
                        environ) == 0);
  return child;
}

// Whatever was left behind is whole, by its checksum. Whether a file was only half written.
bool look_at(const std::filesystem::path& folder) {
  bool unfinished = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    CAPTURE(name);
    unfinished = unfinished || name.ends_with(".tmp");
    if (name.ends_with(".safetensors")) {
      SmallRun run(make_adam, 5);
      CHECK_NOTHROW(load_weights(*run.model, entry.path()));
    }
  }
  return unfinished;
}

struct Kills {
  int all = 0;
  int in_save = 0;
};

// One run from its beginning to its end; as long as `enough` says no, it is killed now and then.
template <class Enough>
void run_and_kill(Device device, std::mt19937& random, Kills& kills, Enough enough) {
  const TensorDataset data = clouds(70, 12, 5);
  const TempFolder folder, reference;
  {
    SmallRun whole(make_adam, 3, device);
    whole.trainer->fit(data, options_for(data));
    save_weights(*whole.model, reference / "weights");
  }
  ::setenv(folder_variable, folder.path().c_str(), 1);
  ::setenv(device_variable, device.str().c_str(), 1);
  for (bool done = false; !done;) {
    std::filesystem::remove(folder / "started");
    const ::pid_t child = start_child();
    wait_for(folder / "started");
    if (!enough()) {
      std::this_thread::sleep_for(
          std::chrono::microseconds(std::uniform_int_distribution(0, 25'000)(random)));
      ::kill(child, SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    done = WIFEXITED(status);
    if (done) {
      CHECK(WEXITSTATUS(status) == 0);
    } else {
      ++kills.all;
    }
    kills.in_save += look_at(folder.path()) ? 1 : 0;
  }
  CHECK((content(folder / "weights") == content(reference / "weights")));
}

void kill_often(Device device) {
  std::mt19937 random(1);
  Kills kills;
  const auto enough = [&kills] {
    return (kills.all >= 20 && kills.in_save > 0) || kills.all >= 200;
  };
  while (!enough()) {
    run_and_kill(device, random, kills, enough);
  }
  MESSAGE(kills.all, " kills, ", kills.in_save, " of them within a save");
  CHECK(kills.in_save > 0);
}

}  // namespace

TEST_CASE("child of the kill test" * doctest::skip()) {
  const char* const folder = std::getenv(folder_variable);
  if (folder == nullptr) {
    return;
  }
  const std::filesystem::path path = std::filesystem::path(folder) / "run.safetensors";
  SmallRun run(make_adam, 3, Device::parse(std::getenv(device_variable)));
  const TensorDataset data = clouds(70, 12, 5);
  FitOptions options = options_for(data);
  options.checkpoint =
      CheckpointOptions{.path = path, .every_steps = 1, .keep = 3, .best = BestBy::loss};
  if (std::filesystem::exists(path)) {
    options.resume = path;
  }
  // Once a step is done, so that each life gets on, however long the first one takes.
  const auto say_so = [&] { std::ofstream(std::filesystem::path(folder) / "started").put('\n'); };
  int calls = 0;
  const auto loss = [&](const Tensor& output, const Tensor& targets) {
    if (run.model->training() && ++calls == 2) {
      say_so();
    }
    return cross_entropy(output, targets);
  };
  Trainer(*run.model, loss, *run.optimizer).fit(data, options);
  say_so();
  save_weights(*run.model, std::filesystem::path(folder) / "weights");
}

TEST_CASE("a run killed at 20 random moments and resumed ends with the bytes of one that was not") {
  kill_often(Device::cpu());
}

TEST_CASE("CUDA: a run killed at 20 random moments ends with the bytes of one that was not") {
  if (!has_gpu()) {
    return;
  }
  kill_often(Device::cuda());
}
