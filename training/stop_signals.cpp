#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

#include <sinter/training/stop_signals.h>

namespace sinter {
namespace {

struct Handled {
  int signal;
  struct sigaction before = {};
};
std::array<Handled, 2> handled{{{SIGINT}, {SIGTERM}}};
std::atomic<int> came{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes to it");

std::mutex mutex;
int living = 0;  // runs of several threads share the handlers

void note(int signal);

bool is_ours(int signal) {
  struct sigaction now = {};
  ::sigaction(signal, nullptr, &now);
  return now.sa_handler == note;
}

void restore() {
  for (const Handled& one : handled) {
    if (is_ours(one.signal)) {
      ::sigaction(one.signal, &one.before, nullptr);
    }
  }
}

void note(int signal) {
  const int error = errno;
  came = signal;
  restore();
  errno = error;
}

}  // namespace

StopSignals::StopSignals() {
  const std::scoped_lock lock(mutex);
  if (living++ > 0) {
    return;
  }
  came = 0;
  struct sigaction noting = {};
  noting.sa_handler = note;
  noting.sa_flags = SA_RESTART;
  ::sigemptyset(&noting.sa_mask);
  for (Handled& one : handled) {  // neither may come while the other one is handled
    ::sigaddset(&noting.sa_mask, one.signal);
  }
  for (Handled& one : handled) {
    ::sigaction(one.signal, nullptr, &one.before);
    if (one.before.sa_handler != SIG_IGN) {
      ::sigaction(one.signal, &noting, nullptr);
    }
  }
}

StopSignals::~StopSignals() {
  const std::scoped_lock lock(mutex);
  if (--living == 0) {
    restore();
  }
}

int StopSignals::received() { return came; }

}  // namespace sinter
