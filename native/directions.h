// Products and sums of a few directions, each as long as an array of parameters.
//
// Included once per instruction set, with SUNDMAN_TARGET naming it; so nothing here is a template of
// the standard library, of which the linker would keep one instance for all. A sum over elements is
// taken by sixteen lanes whatever the instruction set, so that AVX2 and AVX-512 agree.

#include <cstdint>
#include <cstring>

#include "kernels.h"

namespace SUNDMAN_TARGET {

using sundman::Directions;
using sundman::Range;
using sundman::Rows;

#ifdef SUNDMAN_AVX512
constexpr int kPart = 16;
#else
constexpr int kPart = 8;
#endif
constexpr int kWide = 16, kParts = kWide / kPart;
// How many sums are under way at once: as many as keep the units busy and fit in the registers.
constexpr int kRowsOfProducts = kParts == 1 ? 4 : 2, kOthersOfProducts = kParts == 1 ? 5 : 3;
constexpr int kSumsOfMix = 4, kWidesOfMix = kParts == 1 ? 4 : 1;

typedef float Part __attribute__((vector_size(4 * kPart)));
typedef uint32_t PartWords __attribute__((vector_size(4 * kPart)));
typedef uint16_t PartHalves __attribute__((vector_size(2 * kPart)));

inline Part load_part(const float* from) {
  Part v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// Directions are in 16 bits, the upper half of a float's.
inline Part load_part(const uint16_t* from) {
  PartHalves half;
  std::memcpy(&half, from, sizeof half);
  return (Part)(__builtin_convertvector(half, PartWords) << 16);
}

inline void store_part(Part value, float* to) { std::memcpy(to, &value, sizeof value); }

// Rounded to the nearest, and to even between two; what is not a number stays none.
inline void store_part(Part value, uint16_t* to) {
  const PartWords bits = (PartWords)value, number = (PartWords)(value == value);
  const PartWords nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const PartWords rounded = (nearest & number) | (((bits >> 16) | 0x40u) & ~number);
  const PartHalves half = __builtin_convertvector(rounded, PartHalves);
  std::memcpy(to, &half, sizeof half);
}

// The sum of sixteen lanes, by halves.
inline double across(const Part (&parts)[kParts]) {
  typedef float Eight __attribute__((vector_size(32)));
  typedef float Four __attribute__((vector_size(16)));
  Eight eight[2];
  std::memcpy(eight, parts, sizeof eight);
  const Eight sum = eight[0] + eight[1];
  Four four[2];
  std::memcpy(four, &sum, sizeof four);
  const Four rest = four[0] + four[1];
  return (rest[0] + rest[2]) + (rest[1] + rest[3]);
}

// Columns that all rows are gone through for before the next ones: so many of a few rows stay in
// the nearest cache.
constexpr uint64_t kFew = 256, kMany = sundman::kPass;
static_assert(kFew % (kWide * kWidesOfMix) == 0 && kMany % kWide == 0, "tiles of whole vectors");

inline uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

// Memory for as many floats as are asked for, freed at the end of its scope.
struct Buffer {
  float* data;
  explicit Buffer(uint64_t count) : data(new float[count]) {}
  ~Buffer() { delete[] data; }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
};

// Some columns of some rows, as floats with zeros up to `width`.
template <typename T>
void copy_columns(Rows<T> rows, uint64_t begin, uint64_t columns, uint64_t width, float* out) {
  const uint64_t whole = columns - columns % kPart;
  for (uint64_t n = 0; n < rows.count; ++n, out += width) {
    const T* row = rows.row(n) + begin;
    for (uint64_t i = 0; i < whole; i += kPart) store_part(load_part(row + i), out + i);
    if (whole == width) continue;
    T last[kPart] = {};
    std::memcpy(last, row + whole, (columns - whole) * sizeof(T));
    std::memset(out + whole, 0, (width - whole) * sizeof(float));
    store_part(load_part(last), out + whole);
  }
}

// The inner products over kMany columns of some rows with some others, which are each so far apart:
// out[r * stride + n] += row r times other n.
template <int rows, int others, typename T>
void add_tile(const T* first, uint64_t apart, const float* other, uint64_t apart_others, double* out,
              uint64_t stride) {
  Part sums[rows][others][kParts] = {};
  for (uint64_t i = 0; i < kMany; i += kWide) {
    for (int p = 0; p < kParts; ++p) {
      const uint64_t at = i + p * kPart;
      Part row[rows];
      for (int r = 0; r < rows; ++r) row[r] = load_part(first + r * apart + at);
      for (int n = 0; n < others; ++n) {
        const Part o = load_part(other + n * apart_others + at);
        for (int r = 0; r < rows; ++r) sums[r][n][p] += row[r] * o;
      }
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int n = 0; n < others; ++n) out[r * stride + n] += across(sums[r][n]);
  }
}

template <int others, typename T>
void add_products_with(Rows<T> a, uint64_t begin, const float* other, uint64_t apart, double* out,
                       uint64_t stride) {
  constexpr int rows = others == 1 ? 4 : kRowsOfProducts;
  uint64_t m = 0;
  for (; m + rows <= a.count; m += rows) {
    add_tile<rows, others>(a.row(m) + begin, a.size, other, apart, out + m * stride, stride);
  }
  for (; m < a.count; ++m) {
    add_tile<1, others>(a.row(m) + begin, a.size, other, apart, out + m * stride, stride);
  }
}

// Those of all rows of a with all of b, from the column `begin` on.
template <typename T>
void add_products(Rows<T> a, Rows<float> b, uint64_t begin, double* out) {
  uint64_t n = 0;
  for (; n + kOthersOfProducts <= b.count; n += kOthersOfProducts) {
    add_products_with<kOthersOfProducts>(a, begin, b.row(n) + begin, b.size, out + n, b.count);
  }
  for (; n < b.count; ++n) {
    add_products_with<1>(a, begin, b.row(n) + begin, b.size, out + n, b.count);
  }
}

inline void inner_products(Directions a, Rows<float> b, double* out, Range range) {
  uint64_t i = range.begin;
  for (; i + kMany <= range.end; i += kMany) {
    add_products(a, b, i, out);
    add_products(b, b, i, out + a.count * b.count);
  }
  if (i == range.end) return;
  const Buffer last((a.count + b.count) * kMany);
  const Rows<float> left{last.data, a.count, kMany};
  const Rows<float> right{last.data + a.count * kMany, b.count, kMany};
  copy_columns(a, i, range.end - i, kMany, last.data);
  copy_columns(b, i, range.end - i, kMany, last.data + a.count * kMany);
  add_products(left, right, 0, out);
  add_products(right, right, 0, out + a.count * b.count);
}

// total += the sum of some rows, `apart` elements from each other, by weights.
template <int rows, typename T>
void add_rows(const float* weights, const T* first, uint64_t apart, uint64_t columns,
              float* total) {
  for (uint64_t i = 0; i < columns; i += kPart) {
    Part sum = load_part(total + i);
    for (int r = 0; r < rows; ++r) sum += weights[r] * load_part(first + r * apart + i);
    store_part(sum, total + i);
  }
}

template <typename T>
void add_all_rows(const float* weights, Rows<T> rows, uint64_t begin, uint64_t columns,
                  float* total) {
  uint64_t n = 0;
  for (; n + 5 <= rows.count; n += 5) {
    add_rows<5>(weights + n, rows.row(n) + begin, rows.size, columns, total);
  }
  for (; n < rows.count; ++n) {
    add_rows<1>(weights + n, rows.row(n) + begin, rows.size, columns, total);
  }
}

// total += the sum of some directions by weights, over these columns.
inline void add_directions(const float* weights, Directions a, uint64_t begin, uint64_t columns,
                           float* total) {
  const uint64_t whole = columns - columns % kPart;
  add_all_rows(weights, a, begin, whole, total);
  for (uint64_t i = whole; i < columns; ++i) {
    for (uint64_t n = 0; n < a.count; ++n) {
      const uint32_t bits = static_cast<uint32_t>(a.row(n)[begin + i]) << 16;
      float direction;
      std::memcpy(&direction, &bits, sizeof direction);
      total[i] += weights[n] * direction;
    }
  }
}

// Sums of `count` rows of kFew elements, kSumsOfMix of them, each by its own weights.
inline void mix_tile(const float* const (&weights)[kSumsOfMix], uint64_t count, const float* rows,
                     uint16_t* out) {
  constexpr int kVectors = kWidesOfMix * kParts;
  for (uint64_t i = 0; i < kFew; i += kVectors * kPart) {
    Part sums[kSumsOfMix][kVectors] = {};
    for (uint64_t n = 0; n < count; ++n) {
      Part row[kVectors];
      for (int v = 0; v < kVectors; ++v) row[v] = load_part(rows + n * kFew + i + v * kPart);
      for (int l = 0; l < kSumsOfMix; ++l) {
        for (int v = 0; v < kVectors; ++v) sums[l][v] += weights[l][n] * row[v];
      }
    }
    for (int l = 0; l < kSumsOfMix; ++l) {
      for (int v = 0; v < kVectors; ++v) {
        store_part(sums[l][v], out + l * kFew + i + v * kPart);
      }
    }
  }
}

inline void mix_directions(const float* weights, Directions a, Rows<float> b, uint16_t* out,
                           Range range) {
  const uint64_t count = a.count + b.count;
  const Buffer rows(count * kFew);  // all is read before any of it is written
  uint16_t mixed[kSumsOfMix * kFew];
  for (uint64_t i = range.begin; i < range.end; i += kFew) {
    const uint64_t columns = least(kFew, range.end - i);
    copy_columns(a, i, columns, kFew, rows.data);
    copy_columns(b, i, columns, kFew, rows.data + a.count * kFew);
    for (uint64_t first = 0; first < a.count; first += kSumsOfMix) {
      const float* own[kSumsOfMix];  // beyond the last the last one again, which is not used
      for (uint64_t l = 0; l < kSumsOfMix; ++l) {
        own[l] = weights + least(first + l, a.count - 1) * count;
      }
      mix_tile(own, count, rows.data, mixed);
      for (uint64_t l = first; l < least(first + kSumsOfMix, a.count); ++l) {
        std::memcpy(out + l * a.size + i, mixed + (l - first) * kFew, columns * sizeof *out);
      }
    }
  }
}

}  // namespace SUNDMAN_TARGET
