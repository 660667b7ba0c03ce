// libweft_faiss.so: search among vectors by faiss on OpenBLAS, the only user of both.
#include <faiss/Index.h>
#include <faiss/utils/Heap.h>
#include <faiss/utils/distances.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>

#include "apps/vector_search/vector_search.h"
#include "core/base/check.h"

// Declared in OpenBLAS's cblas.h, which other libraries have a file of the same name as.
extern "C" {
void openblas_set_num_threads(int threads);
char* openblas_get_config();
char* openblas_get_corename();
}

namespace weft::apps {
namespace {

constexpr std::uint64_t kPages = 64 << 10;  ///< Around it.

class FaissSearch final : public VectorSearch {
 public:
  FaissSearch() {
    openblas_set_num_threads(1);
    // Products of a block: 1 MiB of memory instead of 16, as fast.
    faiss::distance_compute_blas_query_bs = 256;
    faiss::distance_compute_blas_database_bs = 1024;
  }

  std::string name() const override {
    // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    std::string config = openblas_get_config();
    config.resize(std::min(config.find(' ', config.find(' ') + 1), config.size()));
    return fmt::format("faiss {}.{}.{}, {} ({})", FAISS_VERSION_MAJOR, FAISS_VERSION_MINOR,
                       FAISS_VERSION_PATCH, config, openblas_get_corename());
  }

  /// OpenBLAS's BUFFER_SIZE on x86-64 and arm64, of the one thread that computes at a time. It asks
  /// for that in a loop, which has no end where there is none.
  std::uint64_t private_bytes() const override { return (std::uint64_t{128} << 20) + kPages; }

  void largest(VectorRows queries, VectorRows bases, std::size_t count,
               std::span<std::int64_t> rows, std::span<float> products) const override {
    WEFT_CHECK(rows.size() == queries.size() * count && products.size() == rows.size(),
               "{} rows, {} products of {} queries", rows.size(), products.size(), queries.size());
    if (bases.size() == 0) {
      std::ranges::fill(rows, kNone);
      return;
    }
    omp_set_num_threads(1);  // of those that this thread starts
    faiss::float_minheap_array_t heaps = {queries.size(), count, rows.data(), products.data()};
    faiss::knn_inner_product(queries.values.data(), bases.values.data(), bases.dimensions,
                             queries.size(), bases.size(), &heaps);
  }
};

}  // namespace
}  // namespace weft::apps

extern "C" [[gnu::visibility("default")]] const weft::apps::VectorSearch* weft_faiss_plugin(
    std::uint64_t stamp) {
  static const weft::apps::FaissSearch search;
  return stamp == weft::apps::VectorSearch::kStamp ? &search : nullptr;
}
