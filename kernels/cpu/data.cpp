// Rows picked by index: from a data set to a batch, where bytes become numbers, and embeddings.
#include <algorithm>
#include <cstring>
#include <vector>

#include <sinter/kernels/cpu/integers.h>
#include <sinter/kernels/cpu/ops.h>
#include <sinter/kernels/cpu/types.h>
#include <sinter/kernels/faults.h>
#include <sinter/runtime/parallel.h>

namespace sinter::cpu {
namespace {

// Calls row(i, from, later) for each row i of the result with the index of its source, checked, and
// that of a row which will be wanted soon.
template <class Row>
void for_each_row(const char* op, const Tensor& source, const Tensor& indices, std::int64_t width,
                  Row row) {
  const std::int64_t count = source.size(0);
  const std::vector<std::int64_t> all = read_integers(indices);
  const std::int64_t* index = all.data();
  const auto is_row = [count](std::int64_t i) { return i >= 0 && i < count; };
  const std::int64_t grain =
      std::max<std::int64_t>(1, parallel_grain / std::max<std::int64_t>(width, 1));
  parallel_shares(indices.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (!is_row(index[i])) {
        throw Error(index_sentence(op, {i, index[i], count}));
      }
      constexpr std::int64_t ahead = 2;
      const std::int64_t later = i + ahead < end ? index[i + ahead] : index[i];
      row(i, index[i], is_row(later) ? later : index[i]);
    }
  });
}

// Rows of a data set are picked in random order, which no processor foresees.
void prefetch(const std::uint8_t* bytes, std::int64_t count) {
  constexpr std::int64_t line = 64;
  constexpr std::int64_t at_most = 16 * line;  // from there on the processor sees a stream
  for (std::int64_t at = 0; at < std::min(count, at_most); at += line) {
    __builtin_prefetch(bytes + at);
  }
}

void copy_rows(const char* op, const Tensor& rows, const Tensor& indices, Tensor& y) {
  const std::size_t width =
      rows.size(0) == 0 ? 0 : rows.bytes() / static_cast<std::size_t>(rows.size(0));
  for_each_row(op, rows, indices, static_cast<std::int64_t>(width),
               [&](std::int64_t i, std::int64_t from, std::int64_t) {
                 if (width > 0) {
                   std::memcpy(y.address() + static_cast<std::size_t>(i) * width,
                               rows.address() + static_cast<std::size_t>(from) * width, width);
                 }
               });
}

}  // namespace

void gather_normalise(In bytes, In indices, Out y, const ops::NormaliseArgs& args) {
  with_floating("gather_normalise", y->dtype(), [&]<class T>(T) {
    const std::int64_t width = bytes->size(0) == 0 ? 0 : bytes->numel() / bytes->size(0);
    const double center = 255.0 * args.mean;
    const double scale = 1.0 / (255.0 * args.std);
    const std::uint8_t* source = bytes->raw<std::uint8_t>();
    for_each_row("gather_normalise", *bytes, *indices, width,
                 [&](std::int64_t i, std::int64_t from, std::int64_t later) {
                   prefetch(source + later * width, width);
                   kernels<T>().normalise(source + from * width, center, scale,
                                          y->raw<T>() + i * width, width);
                 });
  });
}

void gather_rows(In rows, In indices, Out y) { copy_rows("gather_rows", *rows, *indices, *y); }

void embedding_forward(In weight, In indices, Out y) {
  copy_rows("embedding", *weight, *indices, *y);
}

void stack(Ins x, Out y) {
  const std::size_t size = size_of(y->dtype());
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::memcpy(y->address() + i * size, x[i].address(), size);
  }
}

}  // namespace sinter::cpu
