// Standard normals of consecutive elements, in vectors: the stream of sundman/noise, word for word.
//
// Included once per instruction set, with SUNDMAN_TARGET naming it; vectors of eight are what the
// compiler makes of them: one AVX register, two of SSE, or plain loops.

#include <cmath>
#include <cstdint>
#include <cstring>

namespace SUNDMAN_TARGET {

constexpr int kLanes = 8;
constexpr int kRows = 4;  // independent vectors in flight, to hide latency
constexpr int kGroup = kLanes * kRows;

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

// log of (word + 1/2) / 2^32: the polynomial of gaussian.py.
inline Floats log_fraction(Words word) {
  const Ints bits = (Ints)(to_float(word) + 0.5f);
  const Ints exponent = (bits - 0x3f3504f3) >> 23;
  const Floats f = (Floats)(bits - (exponent << 23)) - 1.0f;
  Floats p = 0.08743945f * f - 0.14377331f;
  p = p * f + 0.14949095f;
  p = p * f - 0.16560696f;
  p = p * f + 0.19956977f;
  p = p * f - 0.25002153f;
  p = p * f + 0.33334183f;
  p = p * f - 0.49999987f;
  p = p * f + 0.99999997f;
  return __builtin_convertvector(exponent - 32, Floats) * 0.69314718056f + f * p;
}

// cos(2 pi v), v = word / 2^32 as a signed fraction of a turn.
inline Floats cosine_turn(Words word) {
  const Floats v = __builtin_convertvector((Ints)word, Floats) * 0x1p-32f;
  const Floats s = 0.25f - (Floats)((Words)v & 0x7fffffffu);
  const Floats x = s * s;
  Floats p = 39.76072208f * x - 76.58128456f;
  p = p * x + 81.60248074f;
  p = p * x - 41.34168067f;
  p = p * x + 6.28318528f;
  return s * p;
}

template <int bits>
inline void mix(Words* left, Words* right) {
  for (int r = 0; r < kRows; ++r) {
    left[r] += right[r];
    right[r] = rotate_left<bits>(right[r]) ^ left[r];
  }
}

inline void inject(Words* left, Words* right, uint32_t a, uint32_t b) {
  for (int r = 0; r < kRows; ++r) {
    left[r] += a;
    right[r] += b;
  }
}

// Normals of the elements `index` to `index + kGroup`: Threefry-2x32-13, then Box-Muller.
inline void normals(const Stream& stream, uint32_t index, Floats* out) {
  const uint32_t a = stream.key[0], b = stream.key[1], c = a ^ b ^ 0x1bd11bdau;
  const uint32_t first = index + stream.offset + stream.step * 0x9e3779b9u + a;
  const Words lane = {0, 1, 2, 3, 4, 5, 6, 7};
  Words left[kRows], right[kRows];
  for (int r = 0; r < kRows; ++r) {
    left[r] = lane + (first + kLanes * r);
    right[r] = Words{} + (stream.step + b);
  }
  mix<13>(left, right), mix<15>(left, right), mix<26>(left, right), mix<6>(left, right);
  inject(left, right, b, c + 1);
  mix<17>(left, right), mix<29>(left, right), mix<16>(left, right), mix<24>(left, right);
  inject(left, right, c, a + 2);
  mix<13>(left, right), mix<15>(left, right), mix<26>(left, right), mix<6>(left, right);
  inject(left, right, a, b + 3);
  mix<17>(left, right);
  for (int r = 0; r < kRows; ++r) {
    const Floats square = -2.0f * log_fraction(left[r]);
    const Floats positive = (Floats)((Ints)square & (square > 0.0f));
    out[r] = square_root(positive) * cosine_turn(right[r]);
  }
}

}  // namespace SUNDMAN_TARGET
