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

constexpr uint64_t kBlock = 1 << 15;

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

// How arrays are laid out: `chains` of `size` elements, in `blocks` blocks each.
struct Layout {
  uint64_t chains, size, blocks;

  Layout(uint64_t chains, uint64_t elements)
      : chains(chains),
        size(chains ? elements / chains : 0),
        blocks((size + kBlock - 1) / kBlock) {}

  Range range(uint64_t block) const {
    const uint64_t begin = block * kBlock, end = begin + kBlock;
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
