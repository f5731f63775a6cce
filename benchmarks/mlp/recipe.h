// What a training run of the benchmark does, as words on a command line: every system is a program
// of its own that gets one recipe and prints the samples/s it reached.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

/// A multilayer perceptron and how it is trained. Every system trains on the first `items` images,
/// once to warm up and once on the clock, each time in another order.
struct Recipe {
  std::string data = {};                 ///< the folder of the images
  int threads = 1;                       ///< that the system may use
  std::vector<std::int64_t> sizes = {};  ///< of the input and of each layer's output
  std::string activation = "relu";       ///< relu, or gelu by erf; not behind the last layer
  double drop = 0;                       ///< dropout behind each activation
  std::int64_t batch = 1;
  std::string optimizer = "sgd";  ///< sgd or adam
  double lr = 0.05;
  double momentum = 0.9;   ///< of sgd
  std::int64_t items = 0;  ///< a multiple of `batch`
  /// Whether a step fetches its batch from the bytes. Else it cycles through `batches_at_hand`
  /// batches made before the clock starts, as befits a step of microseconds.
  bool load = true;

  std::int64_t steps() const { return items / batch; }
  std::int64_t layers() const { return static_cast<std::int64_t>(sizes.size()) - 1; }
};

inline constexpr std::int64_t batches_at_hand = 64;

/// "sizes=784-128-10 batch=1 ...", which parse() reads.
std::string words(const Recipe& recipe);
/// "784-128-10"
std::string sizes_text(const Recipe& recipe);
/// Of a program's arguments. Ends the program with a sentence where one is unknown or missing.
Recipe parse(int argc, char** argv);

}  // namespace bench
