// libweft_faiss.so: vector search with faiss and OpenBLAS. Only this plugin links the two
// libraries.
#include <faiss/Index.h>
#include <faiss/utils/Heap.h>
#include <faiss/utils/distances.h>
#include <fmt/format.h>

#include <algorithm>

#include "apps/vector_search/vector_search.h"
#include "core/base/check.h"

// Declarations from OpenBLAS's cblas.h, repeated as other libraries install a header of that name,
// and from GCC's omp.h, which clang does not find.
extern "C" {
void omp_set_num_threads(int threads);
void openblas_set_num_threads(int threads);
char* openblas_get_config();
char* openblas_get_corename();
}

namespace weft::apps {
namespace {

constexpr std::uint64_t kPageOverheadBytes =
    64 << 10;  ///< Bytes of page overhead around OpenBLAS's buffer.

class FaissSearch final : public VectorSearch {
 public:
  FaissSearch() {
    openblas_set_num_threads(1);
    // Limits the products of a block to 1 MiB instead of 16 MiB, at the same speed.
    faiss::distance_compute_blas_query_bs = 256;
    faiss::distance_compute_blas_database_bs = 1024;
  }

  std::string name() const override {
    // openblas_get_config() returns "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...".
    std::string config = openblas_get_config();
    config.resize(std::min(config.find(' ', config.find(' ') + 1), config.size()));
    return fmt::format("faiss {}.{}.{}, {} ({})", FAISS_VERSION_MAJOR, FAISS_VERSION_MINOR,
                       FAISS_VERSION_PATCH, config, openblas_get_corename());
  }

  /// Returns OpenBLAS's BUFFER_SIZE on x86-64 and arm64 for its one computing thread. OpenBLAS
  /// retries this allocation in an endless loop if it fails.
  std::uint64_t private_bytes() const override {
    return (std::uint64_t{128} << 20) + kPageOverheadBytes;
  }

  void top_k_products(VectorRows queries, VectorRows bases, std::size_t count,
                      std::span<std::int64_t> rows, std::span<float> products) const override {
    WEFT_CHECK(rows.size() == queries.size() * count && products.size() == rows.size(),
               "{} rows, {} products of {} queries", rows.size(), products.size(), queries.size());
    if (bases.size() == 0) {
      std::ranges::fill(rows, kNoRow);
      return;
    }
    omp_set_num_threads(1);  // applies to OpenMP regions of the calling thread
    faiss::float_minheap_array_t heaps = {queries.size(), count, rows.data(), products.data()};
    faiss::knn_inner_product(queries.values.data(), bases.values.data(), bases.dimensions,
                             queries.size(), bases.size(), &heaps);
  }
};

}  // namespace
}  // namespace weft::apps

extern "C" [[gnu::visibility("default")]] weft::apps::VectorSearch* weft_faiss_plugin(
    std::uint64_t stamp) {
  return stamp == weft::apps::VectorSearch::stamp() ? new weft::apps::FaissSearch : nullptr;
}
