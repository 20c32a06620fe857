// The loops that the handlers call, one set for each instruction set.

#pragma once

#include <cstdint>

namespace sundman {

// Elements of a few arrays that are gone through together: so many of each stay in a cache.
constexpr uint64_t kPass = 1920;

// Elements [begin, end) of one parameter array of one chain.
struct Range {
  uint64_t begin;
  uint64_t end;
};

// Sums over elements of G G, G theta and theta theta.
struct Products {
  double gg;
  double gt;
  double tt;
};

// `count` rows, `size` elements apart.
template <typename T>
struct Rows {
  const T* data;
  uint64_t count;
  uint64_t size;

  const T* row(uint64_t number) const { return data + number * size; }
};

// A few directions, each as long as an array of parameters, as bfloat16.
using Directions = Rows<uint16_t>;

// The gradient comes in two parts: G = grad + precision theta.
struct Kernels {
  // out = theta - dt G + scale eps
  void (*update)(const uint32_t* key, uint32_t step, uint32_t offset, const float* theta,
                 const float* grad, float precision, float dt, float scale, float* out,
                 Range range);
  // out = eps
  void (*fill)(const uint32_t* key, uint32_t step, uint32_t offset, float* out, Range range);
  Products (*products)(const float* theta, const float* grad, float precision, Range range);
  // out[m, n] += the sum over the range of row m of a, then of b, times b[n]
  void (*inner_products)(Directions a, Rows<float> b, double* out, Range range);
  // out = the sum of weights[n] a[n], weights[last] b, and scale eps
  void (*weighted_sum)(const uint32_t* key, uint32_t step, uint32_t offset, float scale,
                       const float* weights, Directions a, const float* b, float* out,
                       Range range);
  // out[l] = the sum over the rows of a, then of b, of weights[l, n] row n; a's memory may be out's
  void (*mix)(const float* weights, Directions a, Rows<float> b, uint16_t* out, Range range);
};

extern const Kernels kPortable;
#ifdef SUNDMAN_AVX2
extern const Kernels kAvx2;
#endif
#ifdef SUNDMAN_AVX512
extern const Kernels kAvx512;
#endif

}  // namespace sundman
