// From a data set on the device to a batch.
#include <sinter/kernels/cuda/faults.h>
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/ops.h>
#include <sinter/kernels/cuda/types.h>

namespace sinter::cuda {
namespace {

// Calls move(picked rows) and throws where one of them was not there.
template <class Move>
void gather(const char* op, const Tensor& source, const Tensor& indices, Move move) {
  if (indices.numel() == 0) {
    return;
  }
  const FaultPlace fault(source.device());
  move(Picked{indices.raw<std::int64_t>(), indices.numel(), source.size(0), fault.note()});
  if (const auto found = fault.found()) {
    throw Error(index_sentence(op, *found));
  }
}

}  // namespace

void gather_normalise(In bytes, In indices, Out y, const ops::NormaliseArgs& args) {
  const std::int64_t columns = bytes->size(0) == 0 ? 0 : bytes->numel() / bytes->size(0);
  gather("gather_normalise", *bytes, *indices, [&](const Picked& picked) {
    with_storage("gather_normalise", y->dtype(), [&]<class T>(T) {
      gather_normalise(y->device().index, picked, bytes->raw<std::uint8_t>(), columns,
                       255.0 * args.mean, 1.0 / (255.0 * args.std), y->raw<T>());
    });
  });
}

void gather_rows(In rows, In indices, Out y) {
  const std::size_t row_bytes =
      rows->size(0) == 0 ? 0 : rows->bytes() / static_cast<std::size_t>(rows->size(0));
  gather("gather_rows", *rows, *indices, [&](const Picked& picked) {
    gather_rows(y->device().index, picked, rows->address(), static_cast<std::int64_t>(row_bytes),
                y->address());
  });
}

}  // namespace sinter::cuda
