// Compiled once per instruction set: SUNDMAN_TARGET is its namespace, SUNDMAN_TABLE its table.

#include "kernels.h"

#include "normals.h"

namespace sundman {
namespace {

using namespace SUNDMAN_TARGET;

template <typename Use>
void for_each_group(const Stream& stream, Range range, Use use) {
  Floats eps[kRows];
  for (uint64_t i = range.begin; i < range.end; i += kGroup) {
    normals(stream, static_cast<uint32_t>(i), eps);
    use(i, eps);
  }
}

void update(const uint32_t* key, uint32_t step, uint32_t offset, const float* theta,
            const float* grad, float dt, float scale, float* out, Range range) {
  const Stream stream{{key[0], key[1]}, step, offset};
  for_each_group(stream, range, [=](uint64_t i, const Floats* eps) {
    if (i + kGroup <= range.end) {
      for (int r = 0; r < kRows; ++r) {
        Floats t, g;
        std::memcpy(&t, theta + i + r * kLanes, sizeof t);
        std::memcpy(&g, grad + i + r * kLanes, sizeof g);
        t = t + (scale * eps[r] - dt * g);
        std::memcpy(out + i + r * kLanes, &t, sizeof t);
      }
    } else {
      for (uint64_t j = i; j < range.end; ++j) {
        const float e = eps[(j - i) / kLanes][(j - i) % kLanes];
        out[j] = theta[j] + (scale * e - dt * grad[j]);
      }
    }
  });
}

void fill(const uint32_t* key, uint32_t step, uint32_t offset, float* out, Range range) {
  const Stream stream{{key[0], key[1]}, step, offset};
  for_each_group(stream, range, [=](uint64_t i, const Floats* eps) {
    const uint64_t count = range.end - i < kGroup ? range.end - i : kGroup;
    std::memcpy(out + i, eps, count * sizeof(float));
  });
}

double squares(const float* x, Range range) {
  Floats sums[kRows] = {};
  uint64_t i = range.begin;
  for (; i + kGroup <= range.end; i += kGroup) {
    for (int r = 0; r < kRows; ++r) {
      Floats v;
      std::memcpy(&v, x + i + r * kLanes, sizeof v);
      sums[r] += v * v;
    }
  }
  double total = 0.0;
  for (; i < range.end; ++i) total += static_cast<double>(x[i]) * x[i];
  for (int r = 0; r < kRows; ++r) {
    for (int lane = 0; lane < kLanes; ++lane) total += sums[r][lane];
  }
  return total;
}

}  // namespace

const Kernels SUNDMAN_TABLE = {update, fill, squares};

}  // namespace sundman
