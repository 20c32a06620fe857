// Compiled once per instruction set: SUNDMAN_TARGET is its namespace, SUNDMAN_TABLE its table.

#include "kernels.h"

#include "normals.h"

#include "directions.h"

namespace sundman {
namespace {

using namespace SUNDMAN_TARGET;

inline Floats load(const float* from) {
  Floats v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// Calls whole(i, eps) for groups of kGroup elements from i on, part(i, count, eps) for shorter
// ones at both ends: groups begin at multiples of 16 of the counter, wherever the array begins.
template <typename Whole, typename Part>
void for_each_group(const Stream& stream, Range range, Whole whole, Part part) {
  Floats eps[kVectors];
  const uint32_t first = first_counter(stream);
  for (uint64_t i = range.begin; i < range.end;) {
    const uint32_t counter = first + static_cast<uint32_t>(i);
    const uint32_t skipped = counter % (2 * kLanes);
    normals(stream, counter - skipped, eps);
    const uint64_t left = range.end - i, room = kGroup - skipped;
    const uint64_t count = left < room ? left : room;
    if (count == kGroup) {
      whole(i, eps);
    } else {
      part(i, count, reinterpret_cast<const float*>(eps) + skipped);
    }
    i += count;
  }
}

void update(const uint32_t* key, uint32_t step, uint32_t offset, const float* theta,
            const float* grad, float precision, float dt, float scale, float* out, Range range) {
  const Stream stream{{key[0], key[1]}, step, offset};
  for_each_group(
      stream, range,
      [=](uint64_t i, const Floats* eps) {
        for (int v = 0; v < kVectors; ++v, i += kLanes) {
          const Floats t = load(theta + i), g = load(grad + i) + precision * t;
          const Floats moved = t + (scale * eps[v] - dt * g);
          std::memcpy(out + i, &moved, sizeof moved);
        }
      },
      [=](uint64_t i, uint64_t count, const float* eps) {
        for (uint64_t j = 0; j < count; ++j) {
          const float t = theta[i + j], g = grad[i + j] + precision * t;
          out[i + j] = t + (scale * eps[j] - dt * g);
        }
      });
}

void fill(const uint32_t* key, uint32_t step, uint32_t offset, float* out, Range range) {
  const Stream stream{{key[0], key[1]}, step, offset};
  const auto copy = [=](uint64_t i, uint64_t count, const void* eps) {
    std::memcpy(out + i, eps, count * sizeof(float));
  };
  for_each_group(stream, range, [=](uint64_t i, const Floats* eps) { copy(i, kGroup, eps); }, copy);
}

double sum(const Floats* parts, int count) {
  double total = 0.0;
  for (int n = 0; n < count; ++n) {
    for (int lane = 0; lane < kLanes; ++lane) total += parts[n][lane];
  }
  return total;
}

Products products(const float* theta, const float* grad, float precision, Range range) {
  constexpr int kSums = 4;
  constexpr uint64_t kPass = kLanes * kSums;
  Floats gg[kSums] = {}, gt[kSums] = {}, tt[kSums] = {};
  uint64_t i = range.begin;
  for (; i + kPass <= range.end; i += kPass) {
    for (int n = 0; n < kSums; ++n) {
      const Floats t = load(theta + i + n * kLanes);
      const Floats g = load(grad + i + n * kLanes) + precision * t;
      gg[n] += g * g;
      gt[n] += g * t;
      tt[n] += t * t;
    }
  }
  Products total{sum(gg, kSums), sum(gt, kSums), sum(tt, kSums)};
  for (; i < range.end; ++i) {
    const double t = theta[i], g = grad[i] + precision * theta[i];
    total.gg += g * g;
    total.gt += g * t;
    total.tt += t * t;
  }
  return total;
}

void weighted_sum(const uint32_t* key, uint32_t step, uint32_t offset, float scale,
                  const float* weights, Directions a, const float* b, float* out, Range range) {
  for (uint64_t i = range.begin; i < range.end; i += kMany) {
    const uint64_t end = least(i + kMany, range.end);
    if (scale != 0.0f) fill(key, step, offset, out, {i, end});
    for (uint64_t j = i; j < end; ++j) {
      const float noise = scale != 0.0f ? scale * out[j] : 0.0f;
      out[j] = weights[a.count] * b[j] + noise;
    }
    add_directions(weights, a, i, end - i, out + i);
  }
}

}  // namespace

const Kernels SUNDMAN_TABLE = {update,         fill,         products,
                               inner_products, weighted_sum, mix_directions};

}  // namespace sundman
