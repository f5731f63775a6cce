#include <atomic>
#include <cmath>
#include <typeinfo>
#include <utility>

#include <sinter/kernels/ops.h>
#include <sinter/training/dataset.h>

namespace sinter {
namespace {

// [n] + shape
Shape stacked(std::int64_t n, std::span<const std::int64_t> item) {
  std::vector<std::int64_t> sizes{n};
  sizes.insert(sizes.end(), item.begin(), item.end());
  return Shape(std::span<const std::int64_t>(sizes));
}

// The batch [1, ...] of one item as the item [...].
Tensor only_row(const Tensor& batch) {
  return batch.reshape(Shape(batch.shape().sizes().subspan(1)));
}

Batch only_item(const Batch& batch) { return {only_row(batch.inputs), only_row(batch.targets)}; }

// The tensor that items like `first` are stacked into.
Tensor room_for(std::int64_t n, const Tensor& first, const char* what, std::int64_t item) {
  check(first.defined(), "Dataset::batch: get(", item, ") returned undefined ", what);
  return Tensor::empty(stacked(n, first.shape().sizes()), first.dtype(), first.device());
}

void put_row(Tensor& out, std::int64_t row, const Tensor& item, const char* what,
             std::int64_t index, std::int64_t first) {
  check(item.defined(), "Dataset::batch: get(", index, ") returned undefined ", what);
  const Shape expected(out.shape().sizes().subspan(1));
  check(item.shape() == expected && item.dtype() == out.dtype(), "Dataset::batch: ", what,
        " of item ", index, " are ", item.dtype(), " ", item.shape(), ", but those of item ", first,
        " in the same batch are ", out.dtype(), " ", expected);
  out.view_rows(row, row + 1).reshape(expected).copy_from(item);
}

Tensor index_tensor(std::span<const std::int64_t> indices, Device device) {
  return Tensor::from(indices, {static_cast<std::int64_t>(indices.size())}, device);
}

Tensor gathered(const Tensor& rows, const Tensor& indices) {
  Tensor out = Tensor::empty(rows.shape().with(0, indices.numel()), rows.dtype(), rows.device());
  ops::gather_rows(rows, indices, out);
  return out;
}

void check_pair(const char* op, const Tensor& inputs, const char* inputs_name,
                const Tensor& targets, const char* targets_name) {
  check(inputs.defined() && targets.defined(), op, ": ",
        inputs.defined() ? targets_name : inputs_name, " are an undefined tensor");
  check(inputs.rank() >= 1 && targets.rank() >= 1, op,
        ": expected the items along the first "
        "dimension, got ",
        inputs_name, " ", inputs.shape(), " and ", targets_name, " ", targets.shape());
  check(inputs.size(0) == targets.size(0), op, ": ", inputs.size(0), " ", inputs_name, " but ",
        targets.size(0), " ", targets_name);
  check(inputs.device() == targets.device(), op, ": ", inputs_name, " are on ", inputs.device(),
        " and ", targets_name, " on ", targets.device(), "; move one with to(device)");
}

void check_take(const char* op, std::int64_t n, std::int64_t size) {
  check(n >= 0 && n <= size, op, ": asked for the first ", n, " items of ", size);
}

}  // namespace

void Dataset::check_indices(std::span<const std::int64_t> indices) const {
  check(!indices.empty(), "Dataset::batch: no indices; a batch has at least one item");
  const std::int64_t n = size();
  for (const std::int64_t i : indices) {
    check(i >= 0 && i < n, "Dataset: item ", i, " does not exist, there are ", n,
          ", counted from 0");
  }
}

Batch Dataset::batch(std::span<const std::int64_t> indices, Device device) const {
  check_indices(indices);
  const auto n = static_cast<std::int64_t>(indices.size());
  Batch out;
  for (std::int64_t row = 0; row < n; ++row) {
    const std::int64_t index = indices[static_cast<std::size_t>(row)];
    const Batch item = get(index);
    if (row == 0) {
      out.inputs = room_for(n, item.inputs, "inputs", index);
      out.targets = room_for(n, item.targets, "targets", index);
    }
    put_row(out.inputs, row, item.inputs, "inputs", index, indices[0]);
    put_row(out.targets, row, item.targets, "targets", index, indices[0]);
  }
  return {out.inputs.to(device), out.targets.to(device)};
}

std::uint64_t Dataset::Id::next() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::unique_ptr<Dataset> Dataset::on(Device) const { return nullptr; }

Batch Dataset::gather(const Tensor&) const {
  throw Error("Dataset::gather: this data set does not lie on a device; call batch()");
}

Subset::Subset(const Dataset& data, std::vector<std::int64_t> indices)
    : data_(&data), indices_(std::move(indices)) {
  const std::int64_t n = data.size();
  for (const std::int64_t i : indices_) {
    check(i >= 0 && i < n, "Subset: item ", i, " does not exist in a data set of ", n);
  }
}

Batch Subset::get(std::int64_t i) const {
  check_indices({&i, 1});
  return data_->get(indices_[static_cast<std::size_t>(i)]);
}

Batch Subset::batch(std::span<const std::int64_t> indices, Device device) const {
  check_indices(indices);
  std::vector<std::int64_t> theirs;
  theirs.reserve(indices.size());
  for (const std::int64_t i : indices) {
    theirs.push_back(indices_[static_cast<std::size_t>(i)]);
  }
  return data_->batch(theirs, device);
}

// A class derived from one of ours may give other batches, which a copy of ours would not.
std::unique_ptr<Dataset> Subset::on(Device device) const {
  if (typeid(*this) != typeid(Subset)) {
    return nullptr;
  }
  std::shared_ptr<const Dataset> there = data_->on(device);
  if (there == nullptr) {
    return nullptr;
  }
  auto out = std::make_unique<Subset>(*there, indices_);
  out->kept_ = std::move(there);
  out->indices_there_ = index_tensor(indices_, device);
  return out;
}

Batch Subset::gather(const Tensor& indices) const {
  return kept_ == nullptr ? Dataset::gather(indices)
                          : kept_->gather(gathered(indices_there_, indices));
}

TensorDataset::TensorDataset(const Tensor& inputs, const Tensor& targets)
    : inputs_(inputs.detach()), targets_(targets.detach()) {
  check_pair("TensorDataset", inputs, "inputs", targets, "targets");
}

TensorDataset TensorDataset::take(std::int64_t n) const {
  check_take("TensorDataset::take", n, size());
  return {inputs_.view_rows(0, n), targets_.view_rows(0, n)};
}

TensorDataset TensorDataset::to(Device device) const {
  return {inputs_.to(device), targets_.to(device)};
}

Batch TensorDataset::get(std::int64_t i) const { return only_item(batch({&i, 1})); }

Batch TensorDataset::batch(std::span<const std::int64_t> indices, Device device) const {
  check_indices(indices);
  const Batch found = gather(index_tensor(indices, inputs_.device()));
  return {found.inputs.to(device), found.targets.to(device)};
}

std::unique_ptr<Dataset> TensorDataset::on(Device device) const {
  if (typeid(*this) != typeid(TensorDataset)) {
    return nullptr;
  }
  return std::make_unique<TensorDataset>(to(device));
}

Batch TensorDataset::gather(const Tensor& indices) const {
  return {gathered(inputs_, indices), gathered(targets_, indices)};
}

InMemoryDataset::InMemoryDataset(const Tensor& images, const Tensor& labels,
                                 const InMemoryOptions& options)
    : images_(images), options_(options) {
  check_pair("InMemoryDataset", images, "images", labels, "labels");
  check(images.dtype() == DType::uint8, "InMemoryDataset: expected images of bytes (uint8), got ",
        images.dtype(), "; a TensorDataset takes numbers as they are");
  check(labels.rank() == 1 && !is_floating(labels.dtype()),
        "InMemoryDataset: expected one integer label for each image, got ", labels.dtype(), " ",
        labels.shape());
  check(std::isfinite(options.mean) && std::isfinite(options.std) && options.std > 0,
        "InMemoryDataset: expected a finite mean and a std above 0, got mean ", options.mean,
        " and std ", options.std);
  check(is_floating(options.dtype), "InMemoryDataset: batches take a floating type, not ",
        options.dtype);
  labels_ = labels.to(DType::int64);
}

InMemoryDataset InMemoryDataset::take(std::int64_t n) const {
  check_take("InMemoryDataset::take", n, size());
  return {images_.view_rows(0, n), labels_.view_rows(0, n), options_};
}

InMemoryDataset InMemoryDataset::to(Device device) const {
  return {images_.to(device), labels_.to(device), options_};
}

Batch InMemoryDataset::get(std::int64_t i) const { return only_item(batch({&i, 1})); }

Batch InMemoryDataset::batch(std::span<const std::int64_t> indices, Device device) const {
  check_indices(indices);
  const Batch found = gather(index_tensor(indices, images_.device()));
  return {found.inputs.to(device), found.targets.to(device)};
}

std::unique_ptr<Dataset> InMemoryDataset::on(Device device) const {
  if (typeid(*this) != typeid(InMemoryDataset)) {
    return nullptr;
  }
  return std::make_unique<InMemoryDataset>(to(device));
}

Batch InMemoryDataset::gather(const Tensor& indices) const {
  Tensor inputs =
      Tensor::empty(images_.shape().with(0, indices.numel()), options_.dtype, images_.device());
  ops::gather_normalise(images_, indices, inputs, {.mean = options_.mean, .std = options_.std});
  return {inputs, gathered(labels_, indices)};
}

}  // namespace sinter
