// Rows picked by index: from a data set on the device to a batch, and embeddings.
#include <sinter/kernels/cuda/faults.h>
#include <sinter/kernels/cuda/kernels.h>
#include <sinter/kernels/cuda/ops.h>
#include <sinter/kernels/cuda/types.h>
#include <sinter/runtime/graph.h>

namespace sinter::cuda {
namespace {

// Calls move(picked rows) and throws where one of them was not there.
template <class Move>
void gather(const char* op, const Tensor& source, const Tensor& indices, Move move) {
  if (indices.numel() == 0) {
    return;
  }
  const FaultPlace fault(source.device());
  const Graph* const graph = Graph::recording();
  move(Picked{{indices.address(), indices.dtype(), indices.numel()},
              source.size(0),
              fault.note(),
              graph != nullptr && graph->is_beside() ? 1 : 0});
  if (const auto found = fault.found()) {
    throw Error(index_sentence(op, *found));
  }
}

void copy_rows(const char* op, const Tensor& rows, const Tensor& indices, const Tensor& y) {
  const std::size_t row_bytes =
      rows.size(0) == 0 ? 0 : rows.bytes() / static_cast<std::size_t>(rows.size(0));
  gather(op, rows, indices, [&](const Picked& picked) {
    gather_rows(y.device().index, picked, rows.address(), static_cast<std::int64_t>(row_bytes),
                y.address());
  });
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

void gather_rows(In rows, In indices, Out y) { copy_rows("gather_rows", *rows, *indices, *y); }

void embedding_forward(In weight, In indices, Out y) {
  copy_rows("embedding", *weight, *indices, *y);
}

void embedding_backward(In dy, In indices, InOut dw, const ops::EmbeddingArgs& args) {
  with_storage("embedding_backward", dy->dtype(), [&]<class T>(T) {
    embedding_backward(
        dy->device().index,
        EmbeddingBackward<T>{.dy = dy->raw<T>(),
                             .indices = {indices->address(), indices->dtype(), indices->numel()},
                             .dw = dw->raw<T>(),
                             .rows = dw->size(0),
                             .columns = dw->size(1),
                             .padding_idx = args.padding_idx,
                             .accumulate = args.accumulate});
  });
}

}  // namespace sinter::cuda
