// The part of the head's kernel that is the gradient of its input, by columns.
#pragma once

#include <cstdint>

#include <sinter/kernels/cuda/tile/backward_input.cuh>
#include <sinter/kernels/cuda/tile/head.cuh>
#include <sinter/kernels/cuda/tile/product.cuh>

namespace sinter::cuda::tile {

struct HeadTask {
  Matrix x;
  Matrix w;
  const float* bias;  // or null
  HeadRows rows;
  float* dx;  // or null
  PassBackward pass;
  double* partial;   // losses of the blocks' rows
  Settled settled;   // rest: w, bias, labels and class weights
  int slices;        // blocks for the same rows
  int slice;         // columns of dx that each takes
  bool vectors_out;  // of dx and what the pass kept
};

/// What the warps of a block tell each other of its rows.
template <int classes>
struct alignas(16) HeadShared {
  // A row is 16 bytes longer than need be: rows lie in different banks.
  float slope[16][classes + 4];
  float loss[16];
  std::int64_t bad[16];
  double weight;  // of all rows, in the mean; else 1
  float scale;    // of the slopes
};

/// 16 rows and 8 columns of dx, by one warp: a quad each lane.
template <int classes>
class InputColumns {
 public:
  static constexpr int columns = 8;

  __device__ __forceinline__ explicit InputColumns(const HeadTask& task)
      : task_(task), bits_(task.pass.mask) {}

  /// The first row and column of the warp.
  __device__ __forceinline__ void move_to(int row, int column) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    line_ = column + lane / 4;
    row_ = row + lane / 4 * 2 + lane % 2;
    column_ = column + lane % 4 / 2 * 4;
    count_ = valid(row_, column_, task_.x.lines, task_.x.depth);
  }
  __device__ __forceinline__ void prepare() {
    if (drops()) {
      bits_.prepare(0, element());
    }
  }
  __device__ __forceinline__ void draw() {
    if (drops()) {
      bits_.draw(0, element());
    }
  }
  __device__ __forceinline__ void load_w() {
    const Matrix turned{task_.w.data, task_.w.depth, task_.w.lines, task_.w.stride};
    const Operand<1, Major::line, false> operand(turned, line_, first_class());
#pragma unroll
    for (int g = 0; g < granules; ++g) {
#pragma unroll
      for (float& value : w_[g][0]) {
        value = 0;
      }
      operand.load(w_[g], g * granule);
    }
  }
  __device__ __forceinline__ void load_kept() {
    if (task_.pass.kept != nullptr) {
      load_quad(kept_[0], task_.pass.kept + offset(), count_, task_.vectors_out);
    }
  }
  __device__ __forceinline__ void finish(const HeadShared<classes>& shared) {
    Partial<Shape<1, 1, 1, 1, 1>> sum;
    sum.clear();
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int g = 0; g < granules; ++g) {
      float slopes[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float4 four = *reinterpret_cast<const float4*>(
            &shared.slope[lane / 4 * 2 + i][g * granule + first_class()]);
        slopes[i][0] = four.x;
        slopes[i][1] = four.y;
        slopes[i][2] = four.z;
        slopes[i][3] = four.w;
      }
      quieten(slopes);
      quieten(w_[g]);
      sum.add(slopes, w_[g]);
    }
    // Two columns of two rows become four of one: neighbours exchange what the other one finishes.
    const bool odd = lane % 2 != 0;
    const float own[2] = {odd ? sum.value(1, 0) : sum.value(0, 0),
                          odd ? sum.value(1, 1) : sum.value(0, 1)};
    const float got[2] = {from_lane_xor(odd ? sum.value(0, 0) : sum.value(1, 0), 1),
                          from_lane_xor(odd ? sum.value(0, 1) : sum.value(1, 1), 1)};
    float4 dx[1] = {odd ? make_float4(got[0], got[1], own[0], own[1])
                        : make_float4(own[0], own[1], got[0], got[1])};
    task_.pass(dx, kept_, bits_);
    store_quad(task_.dx + offset(), {dx[0].x, dx[0].y, dx[0].z, dx[0].w}, count_,
               task_.vectors_out);
  }

 private:
  static constexpr int granules = classes / granule;

  static __device__ __forceinline__ int first_class() {
    return static_cast<int>(threadIdx.x % 4) * 4;
  }
  __device__ __forceinline__ bool drops() const { return task_.pass.drops_unseen() && count_ != 0; }
  __device__ __forceinline__ int offset() const { return row_ * task_.x.depth + column_; }
  __device__ __forceinline__ std::uint64_t element() const {
    return std::uint64_t(row_) * task_.x.depth + column_;
  }

  const HeadTask& task_;
  int line_;          // of w, whose classes this lane multiplies with
  int row_, column_;  // of its quad
  int count_;
  float w_[granules][1][4];
  Quad kept_[1];
  KeptBits<1> bits_;
};

}  // namespace sinter::cuda::tile
