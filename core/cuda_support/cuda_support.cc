#include "core/cuda_support/cuda_support.h"

#include "core/base/default_cache.h"
#include "core/base/error.h"
#include "core/cuda_support/open_gpu_plugin.h"

namespace weft {
namespace {

/// Returns the file of choices in this user's cache; "" if there is no place for a cache.
std::filesystem::path product_choices() {
  try {
    return default_cache() / "cuda_products.jsonl";
  } catch (const Error&) {
    return {};  // the device adds a note
  }
}

}  // namespace

CudaSupport cuda_support(const PluginSearch& search) {
  try {
    return open_gpu_plugin<CudaPlugin>(search)->support();
  } catch (const Error& error) {
    CudaSupport none;
    none.unavailable_reason = error.message();
    return none;
  }
}

std::unique_ptr<Device> make_cuda_device(const CudaDeviceOptions& options,
                                         const PluginSearch& search) {
  const auto plugin = open_gpu_plugin<CudaPlugin>(search);
  const CudaSupport support = plugin->support();
  if (!support.unavailable_reason.empty())
    throw_error(ErrorCode::kFailedPrecondition, "no GPU can be used here: {}",
                support.unavailable_reason);
  if (options.gpu < 0 || static_cast<std::size_t>(options.gpu) >= support.gpus.size()) {
    throw_error(ErrorCode::kFailedPrecondition, "there is no GPU {}: this process sees {}",
                options.gpu, support.gpus.size());
  }
  CudaDeviceOptions asked = options;
  asked.check_every_op |= search.check_every_op;
  asked.graphs &= search.graphs;
  asked.measure_products |= search.measure_products;
  if (asked.measure_products && asked.product_choices.empty())
    asked.product_choices = product_choices();
  return plugin->make_device(asked);
}

}  // namespace weft
