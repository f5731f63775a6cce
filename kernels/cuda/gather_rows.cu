// Rows of any type, copied in the longest words that they lie on.
#include <sinter/kernels/cuda/gather.cuh>

namespace sinter::cuda {
namespace {

template <class Word>
struct Copy {
  const Word* rows;
  Word* y;
  std::int64_t words;  // of a row

  __device__ void operator()(std::int64_t from, std::int64_t to, std::int64_t part) const {
    y[to * words + part] = rows[from * words + part];
  }
  __device__ void clear(std::int64_t to, std::int64_t part) const { y[to * words + part] = Word{}; }
};

template <class Word>
bool copied_in(int device, const Picked& picked, const std::byte* rows, std::int64_t row_bytes,
               std::byte* y) {
  constexpr std::int64_t size = sizeof(Word);
  if (!fits(size, rows, row_bytes) || !fits(size, y, row_bytes)) {
    return false;
  }
  const std::int64_t words = row_bytes / size;
  run_gather(device, picked, words,
             Copy<Word>{reinterpret_cast<const Word*>(rows), reinterpret_cast<Word*>(y), words});
  return true;
}

}  // namespace

void gather_rows(int device, const Picked& picked, const std::byte* rows, std::int64_t row_bytes,
                 std::byte* y) {
  copied_in<uint4>(device, picked, rows, row_bytes, y) ||
      copied_in<std::uint64_t>(device, picked, rows, row_bytes, y) ||
      copied_in<std::uint32_t>(device, picked, rows, row_bytes, y) ||
      copied_in<std::uint16_t>(device, picked, rows, row_bytes, y) ||
      copied_in<std::uint8_t>(device, picked, rows, row_bytes, y);
}

}  // namespace sinter::cuda
