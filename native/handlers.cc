// XLA's foreign functions: read buffers, cut the work into blocks, share it among threads.
//
// A block's result depends on its place alone, so results do not depend on the number of threads.

#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "kernels.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace sundman {
namespace {

constexpr uint64_t kBlock = 1 << 15, kPasses = 17 * kPass;

const Kernels& choose() {
  if (std::getenv("SUNDMAN_PORTABLE") != nullptr) return kPortable;
#ifdef SUNDMAN_AVX512
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma")) {
    return kAvx512;
  }
#endif
#ifdef SUNDMAN_AVX2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2;
#endif
  return kPortable;
}

const Kernels& best() {
  static const Kernels& kernels = choose();
  return kernels;
}

// Runs work(0) ... work(count - 1). The caller works, too, and waits only for blocks that another
// thread has begun: tasks that the pool never starts are not needed, so nothing can lock up.
template <typename Work>
void share(ffi::ThreadPool& pool, uint64_t count, Work work) {
  struct State {
    std::atomic<uint64_t> next{0}, done{0};
  };
  auto state = std::make_shared<State>();
  auto take = [state, count, work] {
    for (uint64_t i; (i = state->next.fetch_add(1)) < count;) {
      work(i);
      state->done.fetch_add(1, std::memory_order_release);
    }
  };
  const uint64_t threads = static_cast<uint64_t>(pool.num_threads());
  const uint64_t helpers = count < threads ? count : threads;
  for (uint64_t i = 1; i < helpers; ++i) pool.Schedule([take] { take(); });
  take();
  while (state->done.load(std::memory_order_acquire) < count) std::this_thread::yield();
}

// How arrays are laid out: `chains` of `size` elements, in `blocks` blocks of `length` each.
struct Layout {
  uint64_t chains, size, length, blocks;

  Layout(uint64_t chains, uint64_t elements, uint64_t length = kBlock)
      : chains(chains),
        size(chains ? elements / chains : 0),
        length(length),
        blocks((size + length - 1) / length) {}

  Range range(uint64_t block) const {
    const uint64_t begin = block * length, end = begin + length;
    return {begin, end < size ? end : size};
  }
};

using F32 = ffi::Buffer<ffi::F32>;
using U32 = ffi::Buffer<ffi::U32>;

ffi::Error update(ffi::ThreadPool pool, F32 theta, F32 grad, F32 precision, F32 dt, F32 scale,
                  U32 key, U32 step, int64_t offset, ffi::ResultBuffer<ffi::F32> out) {
  const Layout layout(step.element_count(), theta.element_count());
  const uint64_t chains = layout.chains;
  if (key.element_count() != 2 * chains || precision.element_count() != chains ||
      dt.element_count() != chains || scale.element_count() != chains ||
      grad.element_count() != theta.element_count()) {
    return ffi::Error::InvalidArgument("langevin update: shapes do not fit");
  }
  const Kernels& kernels = best();
  const auto *t = theta.typed_data(), *g = grad.typed_data(), *p = precision.typed_data(),
             *h = dt.typed_data(), *s = scale.typed_data();
  const auto *k = key.typed_data(), *n = step.typed_data();
  auto* o = out->typed_data();
  share(pool, chains * layout.blocks, [=](uint64_t i) {
    const uint64_t chain = i / layout.blocks, base = chain * layout.size;
    kernels.update(k + 2 * chain, n[chain], static_cast<uint32_t>(offset), t + base, g + base,
                   p[chain], h[chain], s[chain], o + base, layout.range(i % layout.blocks));
  });
  return ffi::Error::Success();
}

ffi::Error fill(ffi::ThreadPool pool, U32 key, U32 step, int64_t offset,
                ffi::ResultBuffer<ffi::F32> out) {
  const Layout layout(step.element_count(), out->element_count());
  if (key.element_count() != 2 * layout.chains) {
    return ffi::Error::InvalidArgument("normals: shapes do not fit");
  }
  const Kernels& kernels = best();
  const auto *k = key.typed_data(), *n = step.typed_data();
  auto* o = out->typed_data();
  share(pool, layout.chains * layout.blocks, [=](uint64_t i) {
    const uint64_t chain = i / layout.blocks;
    kernels.fill(k + 2 * chain, n[chain], static_cast<uint32_t>(offset), o + chain * layout.size,
                 layout.range(i % layout.blocks));
  });
  return ffi::Error::Success();
}

// Three numbers for each chain; blocks are summed in their order, whoever computed them.
ffi::Error products(ffi::ThreadPool pool, F32 theta, F32 grad, F32 precision,
                    ffi::ResultBuffer<ffi::F32> out) {
  const Layout layout(precision.element_count(), theta.element_count());
  if (grad.element_count() != theta.element_count() ||
      out->element_count() != 3 * layout.chains) {
    return ffi::Error::InvalidArgument("products: shapes do not fit");
  }
  auto parts = std::make_shared<std::vector<Products>>(layout.chains * layout.blocks);
  const Kernels& kernels = best();
  const auto *t = theta.typed_data(), *g = grad.typed_data(), *p = precision.typed_data();
  share(pool, parts->size(), [=](uint64_t i) {
    const uint64_t chain = i / layout.blocks, base = chain * layout.size;
    (*parts)[i] =
        kernels.products(t + base, g + base, p[chain], layout.range(i % layout.blocks));
  });
  for (uint64_t chain = 0; chain < layout.chains; ++chain) {
    Products total{};
    for (uint64_t b = 0; b < layout.blocks; ++b) {
      const Products& part = (*parts)[chain * layout.blocks + b];
      total.gg += part.gg;
      total.gt += part.gt;
      total.tt += part.tt;
    }
    float* three = out->typed_data() + 3 * chain;
    three[0] = static_cast<float>(total.gg);
    three[1] = static_cast<float>(total.gt);
    three[2] = static_cast<float>(total.tt);
  }
  return ffi::Error::Success();
}

using U16 = ffi::Buffer<ffi::U16>;

// A matrix for each of some chains: the last two axes of an array.
struct Matrices {
  uint64_t chains = 1, rows = 0, columns = 0;

  template <typename Shape>
  explicit Matrices(Shape shape) {
    const size_t axes = shape.size();
    if (axes < 2) return;
    rows = shape[axes - 2], columns = shape[axes - 1];
    for (size_t axis = 0; axis + 2 < axes; ++axis) chains *= shape[axis];
  }
};

// The rows of one of the chains that `data` has.
template <typename T>
Rows<T> rows_of(const T* data, uint64_t chain, uint64_t count, uint64_t size) {
  return {data + chain * count * size, count, size};
}

// A matrix for each chain, the products of a's rows and of b's with b's; blocks are summed in their
// order, whoever computed them.
ffi::Error inner_products(ffi::ThreadPool pool, U16 a, F32 b, ffi::ResultBuffer<ffi::F32> out) {
  const Matrices shape(out->dimensions());
  const uint64_t n = shape.columns, m = shape.rows - n, number = shape.rows * n;
  const Layout layout(shape.chains * n, b.element_count(), kPasses);
  if (shape.rows < n || a.element_count() != shape.chains * m * layout.size) {
    return ffi::Error::InvalidArgument("inner products: shapes do not fit");
  }
  const uint64_t blocks = layout.blocks;
  auto parts = std::make_shared<std::vector<double>>(shape.chains * blocks * number);
  const Kernels& kernels = best();
  const auto* left = a.typed_data();
  const auto* right = b.typed_data();
  share(pool, shape.chains * blocks, [=](uint64_t i) {
    const uint64_t chain = i / blocks;
    kernels.inner_products(rows_of(left, chain, m, layout.size),
                           rows_of(right, chain, n, layout.size), parts->data() + i * number,
                           layout.range(i % blocks));
  });
  for (uint64_t i = 0; i < shape.chains * number; ++i) {
    const uint64_t first = i / number * blocks * number + i % number;
    double total = 0.0;
    for (uint64_t block = 0; block < blocks; ++block) total += (*parts)[first + block * number];
    out->typed_data()[i] = static_cast<float>(total);
  }
  return ffi::Error::Success();
}

ffi::Error weighted_sum(ffi::ThreadPool pool, F32 weights, U16 a, F32 b, F32 scale, U32 key,
                        U32 step, int64_t offset, ffi::ResultBuffer<ffi::F32> out) {
  const Matrices shape(weights.dimensions());  // one row for each chain
  const uint64_t number = shape.columns, m = number - 1;
  const Layout layout(shape.chains, b.element_count(), kPasses);
  if (shape.rows != 1 || a.element_count() != shape.chains * m * layout.size ||
      scale.element_count() != shape.chains || key.element_count() != 2 * shape.chains ||
      step.element_count() != shape.chains || out->element_count() != b.element_count()) {
    return ffi::Error::InvalidArgument("weighted sum: shapes do not fit");
  }
  const Kernels& kernels = best();
  const auto *w = weights.typed_data(), *more = b.typed_data(), *s = scale.typed_data();
  const auto *k = key.typed_data(), *n = step.typed_data();
  const auto* rows = a.typed_data();
  auto* o = out->typed_data();
  share(pool, shape.chains * layout.blocks, [=](uint64_t i) {
    const uint64_t chain = i / layout.blocks, base = chain * layout.size;
    kernels.weighted_sum(k + 2 * chain, n[chain], static_cast<uint32_t>(offset), s[chain],
                         w + chain * number, rows_of(rows, chain, m, layout.size), more + base,
                         o + base, layout.range(i % layout.blocks));
  });
  return ffi::Error::Success();
}

ffi::Error mix(ffi::ThreadPool pool, U16 a, F32 b, F32 weights, ffi::ResultBuffer<ffi::U16> out) {
  const Matrices shape(weights.dimensions());
  const uint64_t m = shape.rows, n = shape.columns - m;
  const Layout layout(shape.chains * m, a.element_count(), kPasses);
  if (shape.columns < m || b.element_count() != shape.chains * n * layout.size ||
      out->element_count() != a.element_count()) {
    return ffi::Error::InvalidArgument("mix: shapes do not fit");
  }
  const Kernels& kernels = best();
  const auto* w = weights.typed_data();
  const auto* first = a.typed_data();
  const auto* second = b.typed_data();
  auto* o = out->typed_data();
  share(pool, shape.chains * layout.blocks, [=](uint64_t i) {
    const uint64_t chain = i / layout.blocks;
    kernels.mix(w + chain * m * (m + n), rows_of(first, chain, m, layout.size),
                rows_of(second, chain, n, layout.size), o + chain * m * layout.size,
                layout.range(i % layout.blocks));
  });
  return ffi::Error::Success();
}

}  // namespace
}  // namespace sundman

XLA_FFI_DEFINE_HANDLER_SYMBOL(SundmanUpdate, sundman::update,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<sundman::F32>()
                                  .Arg<sundman::F32>()
                                  .Arg<sundman::F32>()
                                  .Arg<sundman::F32>()
                                  .Arg<sundman::F32>()
                                  .Arg<sundman::U32>()
                                  .Arg<sundman::U32>()
                                  .Attr<int64_t>("offset")
                                  .Ret<sundman::F32>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(SundmanNormals, sundman::fill,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<sundman::U32>()
                                  .Arg<sundman::U32>()
                                  .Attr<int64_t>("offset")
                                  .Ret<sundman::F32>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(SundmanProducts, sundman::products,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<sundman::F32>()
                                  .Arg<sundman::F32>()
                                  .Arg<sundman::F32>()
                                  .Ret<sundman::F32>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(SundmanInnerProducts, sundman::inner_products,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<sundman::U16>()
                                  .Arg<sundman::F32>()
                                  .Ret<sundman::F32>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(SundmanWeightedSum, sundman::weighted_sum,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<sundman::F32>()
                                  .Arg<sundman::U16>()
                                  .Arg<sundman::F32>()
                                  .Arg<sundman::F32>()
                                  .Arg<sundman::U32>()
                                  .Arg<sundman::U32>()
                                  .Attr<int64_t>("offset")
                                  .Ret<sundman::F32>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(SundmanMix, sundman::mix,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<sundman::U16>()
                                  .Arg<sundman::F32>()
                                  .Arg<sundman::F32>()
                                  .Ret<sundman::U16>());
