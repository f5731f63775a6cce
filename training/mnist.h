// MNIST and the data sets made in its image: finds the four IDX files, checks them against each
// other and holds them in memory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <sinter/training/dataset.h>

namespace sinter::datasets {

struct Mnist {
  InMemoryDataset train;         ///< images [60000, 1, 28, 28]
  InMemoryDataset test;          ///< images [10000, 1, 28, 28]
  std::filesystem::path folder;  ///< where the files were found, in full
  /// "MNIST" or "Fashion-MNIST" where the first ten training labels and the number of items are
  /// theirs; else the name of the folder.
  std::string name;
};

struct MnistOptions {
  /// Further folders to look in where none was named.
  std::vector<std::filesystem::path> also_look_in = {};
  /// How images become numbers; by default byte / 255.
  InMemoryOptions images = {};
};

/// Reads train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
/// t10k-labels-idx1-ubyte (or spelled train-images.idx3-ubyte and so on), each plain or with .gz,
/// from `folder`. Without one the folder is the environment variable SINTER_DATA where that is set,
/// else the first to hold such files of data/mnist below the current directory, also_look_in, and
/// that of Debian's package dataset-fashion-mnist. Images of any one size [N, rows, cols] become
/// [N, 1, rows, cols].
///
/// Throws Error with the folders and names looked for where files are missing (a folder that holds
/// some of the four is never passed over), what read_idx throws, and for files that do not belong
/// together.
Mnist mnist(const std::filesystem::path& folder = {}, const MnistOptions& options = {});

}  // namespace sinter::datasets
