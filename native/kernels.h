// The loops that the handlers call, one set for each instruction set.

#pragma once

#include <cstdint>

namespace sundman {

// Elements [begin, end) of one parameter array of one chain.
struct Range {
  uint64_t begin;
  uint64_t end;
};

struct Kernels {
  // out = theta - dt grad + scale eps
  void (*update)(const uint32_t* key, uint32_t step, uint32_t offset, const float* theta,
                 const float* grad, float dt, float scale, float* out, Range range);
  // out = eps
  void (*fill)(const uint32_t* key, uint32_t step, uint32_t offset, float* out, Range range);
  // sum of the squares
  double (*squares)(const float* x, Range range);
};

extern const Kernels kPortable;
#ifdef SUNDMAN_AVX2
extern const Kernels kAvx2;
#endif

}  // namespace sundman
