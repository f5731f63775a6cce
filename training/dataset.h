// Where training data comes from: the interface that a user derives from, and data sets held in
// memory, as bytes that are normalised batch by batch or as tensors of any type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sinter/runtime/tensor.h>

namespace sinter {

/// What a training step takes: `auto [images, labels] = data.batch(indices)`.
struct Batch {
  Tensor inputs;
  Tensor targets;
};

/// Items that can be counted and fetched by number. A data set of one's own is two functions:
///
///     class Squares : public Dataset {
///      public:
///       std::int64_t size() const override { return 1000; }
///       Batch get(std::int64_t i) const override {
///         const float x = static_cast<float>(i) / 1000.0f;
///         return {Tensor::from({x}, {1}), Tensor::from({x * x}, {1})};
///       }
///     };
///
/// What get() throws reaches the training loop unchanged. Where a DataLoader has workers, its
/// threads call batch(), and so get(), at the same time: neither may change anything that they
/// share, and what they draw at random must follow from the item, not from the order of calls.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  /// Item i of [0, size()), without a batch dimension: an image [1, 28, 28] and its label [].
  virtual Batch get(std::int64_t i) const = 0;
  /// The items `indices` (at least one) in that order, stacked along a new first dimension, on
  /// `device`. This one calls get() for each; override it where a whole batch is cheaper. Throws
  /// Error naming the item that is out of range or differs from the first in shape or type.
  virtual Batch batch(std::span<const std::int64_t> indices, Device device = {}) const;

  /// The same items held on `device`, so that gather() can be called; null (as here) where a data
  /// set cannot lie on a device. A class derived from one of ours overrides it, or it is null too.
  /// Throws Error where there is no memory for it.
  virtual std::unique_ptr<Dataset> on(Device device) const;
  /// Bytes that on() takes.
  virtual std::size_t bytes() const { return 0; }
  /// batch() for indices (int64 [B]) that lie on the device where the items do; the host is not
  /// needed. Throws Error for a data set that on() did not return.
  virtual Batch gather(const Tensor& indices) const;

  /// Of this object alone in the whole process, copies have another: what was recorded of a data
  /// set that is gone is not taken for that of one in its place.
  std::uint64_t id() const { return id_.value; }

 protected:
  /// Throws Error unless there are indices and all lie in [0, size()).
  void check_indices(std::span<const std::int64_t> indices) const;

 private:
  struct Id {
    std::uint64_t value = next();
    Id() = default;
    Id(const Id&) {}
    Id& operator=(const Id&) {
      value = next();
      return *this;
    }
    static std::uint64_t next();
  };
  Id id_;
};

/// Items `indices` of another data set, which must outlive this one: a part for validation, say.
/// Throws Error for an index out of range.
class Subset : public Dataset {
 public:
  Subset(const Dataset& data, std::vector<std::int64_t> indices);
  Subset(const Dataset&& data, std::vector<std::int64_t> indices) = delete;  // would dangle

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Batch get(std::int64_t i) const override;
  Batch batch(std::span<const std::int64_t> indices, Device device = {}) const override;
  /// With all items of the other data set, of which it keeps a copy there.
  std::unique_ptr<Dataset> on(Device device) const override;
  std::size_t bytes() const override { return data_->bytes(); }
  Batch gather(const Tensor& indices) const override;

 private:
  const Dataset* data_;
  std::vector<std::int64_t> indices_;
  // Of what on() returns:
  std::shared_ptr<const Dataset> kept_;
  Tensor indices_there_;
};

/// Rows of two tensors of any types. Copies share the elements.
class TensorDataset : public Dataset {
 public:
  /// inputs [N, ...], targets [N, ...], on one device. Throws Error where they do not fit together.
  TensorDataset(const Tensor& inputs, const Tensor& targets);

  const Tensor& inputs() const { return inputs_; }
  const Tensor& targets() const { return targets_; }
  /// The first n items, sharing the elements. Throws Error unless 0 <= n <= size().
  TensorDataset take(std::int64_t n) const;
  /// The same items kept on `device`, where batches are then gathered.
  TensorDataset to(Device device) const;
  std::unique_ptr<Dataset> on(Device device) const override;
  std::size_t bytes() const override { return inputs_.bytes() + targets_.bytes(); }
  Batch gather(const Tensor& indices) const override;

  std::int64_t size() const override { return inputs_.size(0); }
  Batch get(std::int64_t i) const override;
  Batch batch(std::span<const std::int64_t> indices, Device device = {}) const override;

 private:
  Tensor inputs_;
  Tensor targets_;
};

/// How bytes become numbers: y = (byte / 255 - mean) / std, in units of the full range of a byte,
/// as usual for images. The default maps 0..255 to 0..1.
struct InMemoryOptions {
  double mean = 0.0;
  double std = 1.0;
  DType dtype = DType::float32;  ///< of the inputs of a batch; any floating type
};

/// Images (or other bytes) with class labels. It keeps the bytes, a quarter of float32, and
/// normalises each batch as it is gathered. Copies share the elements.
class InMemoryDataset : public Dataset {
 public:
  /// images uint8 [N, ...], labels [N] of uint8, int32 or int64, on one device. A batch has inputs
  /// [B, ...] of options.dtype and targets [B] of int64. Throws Error where the two do not fit
  /// together, for a std that is not above 0 and for a dtype that is not floating.
  InMemoryDataset(const Tensor& images, const Tensor& labels, const InMemoryOptions& options = {});

  const Tensor& images() const { return images_; }  ///< uint8 [N, ...]
  const Tensor& labels() const { return labels_; }  ///< int64 [N]
  const InMemoryOptions& options() const { return options_; }
  /// The first n items, sharing the elements. Throws Error unless 0 <= n <= size().
  InMemoryDataset take(std::int64_t n) const;
  /// The same items kept on `device`, where batches are then gathered and normalised.
  InMemoryDataset to(Device device) const;
  std::unique_ptr<Dataset> on(Device device) const override;
  std::size_t bytes() const override { return images_.bytes() + labels_.bytes(); }
  Batch gather(const Tensor& indices) const override;

  std::int64_t size() const override { return images_.size(0); }
  Batch get(std::int64_t i) const override;
  Batch batch(std::span<const std::int64_t> indices, Device device = {}) const override;

 private:
  Tensor images_;
  Tensor labels_;
  InMemoryOptions options_;
};

}  // namespace sinter
