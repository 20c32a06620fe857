// Standard normals of consecutive elements, in vectors: the stream of sundman/noise, word for word.
//
// Included once per instruction set, with SUNDMAN_TARGET naming it; vectors of eight are what the
// compiler makes of them: one AVX register, two of SSE, or plain loops.

#include <cmath>
#include <cstdint>
#include <cstring>

namespace SUNDMAN_TARGET {

constexpr int kLanes = 8;
constexpr int kRows = 6;  // independent vectors in flight, to hide latency
constexpr int kVectors = 2 * kRows;
constexpr int kGroup = kLanes * kVectors;

typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));
typedef float Floats __attribute__((vector_size(4 * kLanes)));

// Where in the random sequence a step stands; `offset` is the first element's number.
struct Stream {
  uint32_t key[2];
  uint32_t step;
  uint32_t offset;
};

template <int bits>
inline Words rotate_left(Words word) {
  return (word << bits) | (word >> (32 - bits));
}

inline Floats square_root(Floats x) {
  Floats root;
  for (int i = 0; i < kLanes; ++i) root[i] = std::sqrt(x[i]);
  return root;
}

// A word as a float, rounded once: both halves are exact, only their sum rounds.
inline Floats to_float(Words word) {
  const Ints high = (Ints)(word >> 16), low = (Ints)(word & 0xffffu);
  return __builtin_convertvector(high, Floats) * 65536.0f + __builtin_convertvector(low, Floats);
}

// The functions below work on all rows at once, so that their latencies overlap.
typedef Words WordRows[kRows];
typedef Floats FloatRows[kRows];

// p <- p x + c
inline void horner(FloatRows& p, const FloatRows& x, float c) {
  for (int r = 0; r < kRows; ++r) p[r] = p[r] * x[r] + c;
}

// log of (word + 1/2) / 2^32: the polynomial of gaussian.py.
inline void log_fraction(const WordRows& word, FloatRows& log) {
  FloatRows f, p;
  Ints exponent[kRows];
  for (int r = 0; r < kRows; ++r) {
    const Ints bits = (Ints)(to_float(word[r]) + 0.5f);
    exponent[r] = (bits - 0x3f3504f3) >> 23;
    f[r] = (Floats)(bits - (exponent[r] << 23)) - 1.0f;
    p[r] = 0.08743945f * f[r] - 0.14377331f;
  }
  horner(p, f, 0.14949095f);
  horner(p, f, -0.16560696f);
  horner(p, f, 0.19956977f);
  horner(p, f, -0.25002153f);
  horner(p, f, 0.33334183f);
  horner(p, f, -0.49999987f);
  horner(p, f, 0.99999997f);
  for (int r = 0; r < kRows; ++r) {
    log[r] = __builtin_convertvector(exponent[r] - 32, Floats) * 0.69314718056f + f[r] * p[r];
  }
}

// cos(2 pi v), v = word / 2^32 as a signed fraction of a turn.
inline void cosine_turn(const WordRows& word, FloatRows& cosine) {
  FloatRows s, x, p;
  for (int r = 0; r < kRows; ++r) {
    const Floats v = __builtin_convertvector((Ints)word[r], Floats) * 0x1p-32f;
    s[r] = 0.25f - (Floats)((Words)v & 0x7fffffffu);
    x[r] = s[r] * s[r];
    p[r] = 39.76072208f * x[r] - 76.58128456f;
  }
  horner(p, x, 81.60248074f);
  horner(p, x, -41.34168067f);
  horner(p, x, 6.28318528f);
  for (int r = 0; r < kRows; ++r) cosine[r] = s[r] * p[r];
}

template <int bits>
inline void mix(WordRows& left, WordRows& right) {
  for (int r = 0; r < kRows; ++r) {
    left[r] += right[r];
    right[r] = rotate_left<bits>(right[r]) ^ left[r];
  }
}

inline void inject(WordRows& left, WordRows& right, uint32_t a, uint32_t b) {
  for (int r = 0; r < kRows; ++r) {
    left[r] += a;
    right[r] += b;
  }
}

// The counter of a leaf's first element at a step.
inline uint32_t first_counter(const Stream& stream) {
  return stream.offset + stream.step * 0x9e3779b9u;
}

// Normals of the counters `counter` (a multiple of 16) to `counter + kGroup`: Threefry-2x32-13,
// then both halves of Box-Muller, the second for the counters with the bit 8.
inline void normals(const Stream& stream, uint32_t counter, Floats (&out)[kVectors]) {
  const uint32_t a = stream.key[0], b = stream.key[1], c = a ^ b ^ 0x1bd11bdau;
  const Words lane = {0, 1, 2, 3, 4, 5, 6, 7};
  WordRows left, right;
  for (int r = 0; r < kRows; ++r) {
    left[r] = lane + (counter + a + 2 * kLanes * r);
    right[r] = Words{} + (stream.step + b);
  }
  mix<13>(left, right), mix<15>(left, right), mix<26>(left, right), mix<6>(left, right);
  inject(left, right, b, c + 1);
  mix<17>(left, right), mix<29>(left, right), mix<16>(left, right), mix<24>(left, right);
  inject(left, right, c, a + 2);
  mix<13>(left, right), mix<15>(left, right), mix<26>(left, right), mix<6>(left, right);
  inject(left, right, a, b + 3);
  mix<17>(left, right);
  FloatRows radius, cosine;
  log_fraction(left, radius);
  for (int r = 0; r < kRows; ++r) {
    const Floats square = -2.0f * radius[r];
    radius[r] = square_root((Floats)((Ints)square & (square > 0.0f)));
  }
  cosine_turn(right, cosine);
  for (int r = 0; r < kRows; ++r) {
    out[2 * r] = radius[r] * cosine[r];
    right[r] += 0x40000000u;  // a quarter turn
  }
  cosine_turn(right, cosine);
  for (int r = 0; r < kRows; ++r) out[2 * r + 1] = radius[r] * cosine[r];
}

}  // namespace SUNDMAN_TARGET
