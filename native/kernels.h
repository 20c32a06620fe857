// The loops that the handlers call, one set for each instruction set.

#pragma once

#include <cstdint>

namespace sundman {

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

// The gradient comes in two parts: G = grad + precision theta.
struct Kernels {
  // out = theta - dt G + scale eps
  void (*update)(const uint32_t* key, uint32_t step, uint32_t offset, const float* theta,
                 const float* grad, float precision, float dt, float scale, float* out,
                 Range range);
  // out = eps
  void (*fill)(const uint32_t* key, uint32_t step, uint32_t offset, float* out, Range range);
  Products (*products)(const float* theta, const float* grad, float precision, Range range);
};

extern const Kernels kPortable;
#ifdef SUNDMAN_AVX2
extern const Kernels kAvx2;
#endif
#ifdef SUNDMAN_AVX512
extern const Kernels kAvx512;
#endif

}  // namespace sundman
